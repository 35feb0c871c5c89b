# Every dependency comes through find_package, so that modules, Spack and <Name>_ROOT work as HPC users expect.
# jobs/setup.sh prints what to install, or how to point here, when one of these fails.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

# Modules of a cluster name their folders in LIBRARY_PATH, too. CMake takes those for the compiler's own, and would give them no RPATH: the
# program would start only where the modules are loaded, and not on a host that mpirun reaches by ssh.
file(TO_CMAKE_PATH "$ENV{LIBRARY_PATH}" module_folders)
if(module_folders)
  foreach(language C CXX)
    list(REMOVE_ITEM CMAKE_${language}_IMPLICIT_LINK_DIRECTORIES ${module_folders})
  endforeach()
endif()

# weft_find_library(NAME HEADER LIBRARY [OPTIONAL] [HEADERS]): makes weft::NAME, for a library without a CMake package
# of its own. It is found by NAME_ROOT or CMAKE_PREFIX_PATH. An optional one that is missing makes no target. HEADERS takes
# the headers alone.
function(weft_find_library target header library)
  set(hints ${${target}_ROOT} $ENV{${target}_ROOT})
  find_path(${target}_INCLUDE_DIR ${header} HINTS ${hints} ${CUDAToolkit_INCLUDE_DIRS} PATH_SUFFIXES include)
  if("HEADERS" IN_LIST ARGN)
    set(${target}_LIBRARY "")
  else()
    find_library(${target}_LIBRARY ${library} HINTS ${hints} ${CUDAToolkit_LIBRARY_DIR} PATH_SUFFIXES lib lib64)
  endif()
  mark_as_advanced(${target}_INCLUDE_DIR ${target}_LIBRARY)
  if("${${target}_INCLUDE_DIR};${${target}_LIBRARY}" MATCHES "NOTFOUND")
    if("OPTIONAL" IN_LIST ARGN)
      return()
    endif()
    message(FATAL_ERROR "Weft: ${header} / lib${library} not found; add their prefix to CMAKE_PREFIX_PATH")
  endif()
  add_library(weft::${target} INTERFACE IMPORTED)
  target_include_directories(weft::${target} INTERFACE "${${target}_INCLUDE_DIR}")
  target_link_libraries(weft::${target} INTERFACE ${${target}_LIBRARY})
endfunction()

# weft_header_version(RESULT HEADER PREFIX [PATCH]): reads the version that PREFIX_MAJOR... and PREFIX_MINOR... give in a header, and
# PREFIX_PATCH..., too, where the name of that third part is given; 0 where there is no such header.
function(weft_header_version result header prefix)
  set(version 0)
  if(EXISTS "${header}")
    set(version "")
    foreach(part MAJOR MINOR ${ARGN})
      file(STRINGS "${header}" line REGEX "^#define ${prefix}_${part}(_VERSION)? " LIMIT_COUNT 1)
      string(REGEX REPLACE "^#define [^ ]+ +([0-9]+).*$" "\\1" number "${line}")
      list(APPEND version "${number}")
    endforeach()
    list(JOIN version "." version)
  endif()
  set(${result} ${version} PARENT_SCOPE)
endfunction()

find_package(fmt REQUIRED)
find_package(tomlplusplus REQUIRED)
find_package(nlohmann_json REQUIRED)
weft_find_library(xxhash xxhash.h xxhash)

if(NOT WEFT_FUZZ)  # no parser includes it
  find_package(Kokkos 4.7 REQUIRED)
endif()
if(NOT WEFT_FUZZ AND NOT WEFT_NVCC AND NOT WEFT_HIP AND (NOT Kokkos_ENABLE_OPENMP OR Kokkos_ENABLE_CUDA OR Kokkos_ENABLE_HIP))
  message(FATAL_ERROR "Weft: a build for the host needs a Kokkos with OpenMP and neither CUDA nor HIP (that in ${Kokkos_DIR} has ${Kokkos_DEVICES}); "
                      "set Kokkos_ROOT to one (cmake/get_kokkos.sh builds it)")
endif()
find_package(spdlog REQUIRED)
if(WEFT_HIP)
  return()
endif()

find_package(Threads REQUIRED)
set(MPI_DETERMINE_LIBRARY_VERSION TRUE)
# MPI's C++ bindings are gone from the standard. They only cost compile time and warnings.
set(MPI_CXX_SKIP_MPICXX TRUE)
find_package(MPI 3.0 REQUIRED COMPONENTS CXX)
find_package(CLI11 REQUIRED)
find_package(ZLIB REQUIRED)

# The checkpoint writer makes no MPI call, so it needs serial HDF5. A parallel build of HDF5 works, too; its headers include MPI's.
set(HDF5_PREFER_PARALLEL OFF)
find_package(HDF5 REQUIRED COMPONENTS C)
if(HDF5_IS_PARALLEL)
  target_link_libraries(hdf5::hdf5 INTERFACE MPI::MPI_CXX)
endif()

# This does not use find_package(dnnl), because Debian's package file insists on OpenCL headers, which Weft
# does not need.
weft_find_library(dnnl oneapi/dnnl/dnnl.hpp dnnl)
weft_find_library(sentencepiece sentencepiece_processor.h sentencepiece)
weft_find_library(sentencepiece_train sentencepiece_trainer.h sentencepiece_train)
# Its newer headers have Abseil's Status in the place of their own.
file(STRINGS "${sentencepiece_INCLUDE_DIR}/sentencepiece_processor.h" needs_abseil REGEX "#include <absl/status/status.h>")
if(needs_abseil)
  find_package(absl REQUIRED)
  target_link_libraries(weft::sentencepiece INTERFACE absl::status)
endif()
weft_find_library(pcre2 pcre2.h pcre2-8 OPTIONAL)
weft_find_library(utf8proc utf8proc.h utf8proc OPTIONAL)
if(NOT TARGET weft::pcre2)
  message(STATUS "Weft: without PCRE2 (pcre2.h, libpcre2-8): tokenizer.json files cannot be read")
elseif(NOT TARGET weft::utf8proc)
  message(STATUS "Weft: without utf8proc: tokenizer.json files that normalize text (NFC) cannot be read")
endif()

if(WEFT_CUDA)
  if(WEFT_NVCC AND NOT Kokkos_ENABLE_CUDA)
    message(FATAL_ERROR "Weft: WEFT_CUDA=ON needs a Kokkos built with CUDA; set Kokkos_ROOT to one (jobs/setup.sh --cuda builds it)")
  endif()
  find_package(CUDAToolkit 12.0 REQUIRED)
  if(WEFT_FAKECUDA)  # NVIDIA's headers, and none of its libraries: tests/fakecuda has fakes of them
    set(cuda_parts HEADERS)
    set(WEFT_CUDA_LIBRARIES weft_fakecuda)
  else()
    set(cuda_parts "")
    set(WEFT_CUDA_LIBRARIES CUDA::cublasLt CUDA::cudart weft::nccl)
  endif()
  weft_find_library(nccl nccl.h nccl ${cuda_parts})
  include(weft_cudnn)
else()
  include(weft_mkl)
endif()
