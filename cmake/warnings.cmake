# Warnings are errors in this project's own code, for the compilers that CI runs.
add_library(trunkline_warnings INTERFACE)
set(cxx_warnings -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wnon-virtual-dtor -Wold-style-cast)
# Host code that nvcc generates is neither pedantic nor free of old casts.
set(cuda_warnings -Xcompiler=-Wall,-Wextra,-Wshadow)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # std::string concatenation is taken for an overlapping copy (GCC bug 105651, mended in 13).
  list(APPEND cxx_warnings -Wno-restrict)
endif()
option(TRUNKLINE_WERROR "Treat warnings as errors" ${PROJECT_IS_TOP_LEVEL})
if(TRUNKLINE_WERROR)
  list(APPEND cxx_warnings -Werror)
  # Registers that spill are an error, too.
  list(APPEND cuda_warnings -Werror=all-warnings -Xcompiler=-Werror -Xptxas=--warn-on-spills,--warning-as-error)
endif()
target_compile_options(trunkline_warnings INTERFACE
  "$<$<COMPILE_LANGUAGE:CXX>:${cxx_warnings}>" "$<$<COMPILE_LANGUAGE:CUDA>:${cuda_warnings}>")
