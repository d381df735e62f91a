# Warnings are errors in this project's own code, for the compilers that CI runs.
add_library(trunkline_warnings INTERFACE)
target_compile_options(trunkline_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wnon-virtual-dtor -Wold-style-cast)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # std::string concatenation is taken for an overlapping copy (GCC bug 105651, mended in 13).
  target_compile_options(trunkline_warnings INTERFACE -Wno-restrict)
endif()
option(TRUNKLINE_WERROR "Treat warnings as errors" ${PROJECT_IS_TOP_LEVEL})
if(TRUNKLINE_WERROR)
  target_compile_options(trunkline_warnings INTERFACE -Werror)
endif()
