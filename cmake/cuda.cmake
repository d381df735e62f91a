# Sets trunkline_cuda: whether the CUDA executor is built. Its language is enabled only then.
#
# AUTO leaves it out of sanitizer and fuzzing builds: device code is not instrumented, and takes minutes to compile.
set(trunkline_cuda OFF)
if(TRUNKLINE_CUDA STREQUAL "ON" OR (TRUNKLINE_CUDA STREQUAL "AUTO" AND NOT TRUNKLINE_SANITIZE
                                    AND NOT TRUNKLINE_BUILD_FUZZERS))
  find_program(TRUNKLINE_NVCC nvcc HINTS ENV CUDACXX PATHS /usr/local/cuda/bin DOC "CUDA compiler")
  if(TRUNKLINE_NVCC)
    set(trunkline_cuda ON)
  elseif(TRUNKLINE_CUDA STREQUAL "ON")
    message(FATAL_ERROR "TRUNKLINE_CUDA is ON, but nvcc is neither on PATH nor in /usr/local/cuda/bin")
  endif()
elseif(NOT TRUNKLINE_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "TRUNKLINE_CUDA is \"${TRUNKLINE_CUDA}\"; known: AUTO, ON, OFF")
endif()
message(STATUS "CUDA executor: ${trunkline_cuda} (TRUNKLINE_CUDA is ${TRUNKLINE_CUDA})")

if(trunkline_cuda)
  if(NOT CMAKE_CUDA_COMPILER)
    set(CMAKE_CUDA_COMPILER ${TRUNKLINE_NVCC} CACHE FILEPATH "CUDA compiler")
  endif()
  if(NOT CMAKE_CUDA_HOST_COMPILER)
    set(CMAKE_CUDA_HOST_COMPILER ${CMAKE_CXX_COMPILER} CACHE FILEPATH "Host compiler of nvcc")
  endif()
  # Machine code for the A100 and the H100 family; PTX, compiled by the driver, for all others from 8.0 on.
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80-real 90a-real 80-virtual)
  endif()
  enable_language(CUDA)
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
    # cxx_std_20 asks for it of every language; CMake before 3.26 does not know that nvcc has it, since version 12.
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
  endif()
  # The static runtime loads the driver when first used, so that binaries start on machines without one. It is linked
  # by name, since consumers of the installed library have no CUDA language that would bring it.
  set(CMAKE_CUDA_RUNTIME_LIBRARY None)
  find_package(CUDAToolkit 12.5 REQUIRED)  # cudaGetDriverEntryPointByVersion
endif()
