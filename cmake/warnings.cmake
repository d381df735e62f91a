# Warnings of this project's own code. They are errors only where TRUNKLINE_WERROR is set, as CI does: a compiler that is
# newer than CI's may warn of more, and must not fail a user's build.
add_library(trunkline_warnings INTERFACE)
set(cxx_warnings -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wnon-virtual-dtor -Wold-style-cast)
# Host code that nvcc generates is neither pedantic nor free of old casts. Registers that spill fail every build, a user's
# too: a kernel that spills loses much of its speed, and nothing else would say so.
set(cuda_warnings -Xcompiler=-Wall,-Wextra,-Wshadow)
set(cuda_spills -Xptxas=--warn-on-spills,--warning-as-error)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # std::string concatenation is taken for an overlapping copy (GCC bug 105651, mended in 13).
  list(APPEND cxx_warnings -Wno-restrict)
endif()
option(TRUNKLINE_WERROR "Treat warnings as errors" OFF)
if(TRUNKLINE_WERROR)
  list(APPEND cxx_warnings -Werror)
  list(APPEND cuda_warnings -Werror=all-warnings -Xcompiler=-Werror)
endif()
target_compile_options(trunkline_warnings INTERFACE
  "$<$<COMPILE_LANGUAGE:CXX>:${cxx_warnings}>" "$<$<COMPILE_LANGUAGE:CUDA>:${cuda_warnings};${cuda_spills}>")
# For kernels whose spills were looked at: config.hpp of each says which, and why they are few or off the main loop.
add_library(trunkline_warnings_but_spills INTERFACE)
target_compile_options(trunkline_warnings_but_spills INTERFACE "$<$<COMPILE_LANGUAGE:CUDA>:${cuda_warnings}>")
