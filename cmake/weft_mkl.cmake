# WEFT_MKL says whether MKL computes fp32 products on Intel processors, where it is found (a module's MKLROOT,
# Spack, jobs/setup.sh --mkl). With AMX it does so only for precision.f32_products = "plain". oneDNN computes
# the other products. This file makes weft::mkl and sets WEFT_MKL_VERSION, which is empty without MKL.
set(WEFT_MKL AUTO CACHE STRING "fp32 matrix products by MKL: AUTO (where it is found), ON or OFF")
set_property(CACHE WEFT_MKL PROPERTY STRINGS AUTO ON OFF)
set(WEFT_MKL_VERSION "")
if(NOT WEFT_MKL)
  return()
endif()

# This does not use mkl_rt, which takes its threads from the environment: libgomp is Kokkos' runtime. Only
# shared libraries are taken; in PyPI's wheels they have no name without a version.
set(hints ${MKL_ROOT} $ENV{MKL_ROOT} $ENV{MKLROOT})
find_path(mkl_INCLUDE_DIR mkl_cblas.h HINTS ${hints} PATH_SUFFIXES include include/mkl)
mark_as_advanced(mkl_INCLUDE_DIR)
set(mkl_libraries "")
foreach(part mkl_intel_lp64 mkl_gnu_thread mkl_core)
  find_library(${part}_LIBRARY NAMES lib${part}.so lib${part}.so.3 lib${part}.so.2 HINTS ${hints} PATH_SUFFIXES lib lib/intel64)
  mark_as_advanced(${part}_LIBRARY)
  list(APPEND mkl_libraries "${${part}_LIBRARY}")
endforeach()

set(found "none")
if(mkl_INCLUDE_DIR AND NOT mkl_libraries MATCHES "NOTFOUND")
  file(STRINGS "${mkl_INCLUDE_DIR}/mkl_version.h" lines REGEX "^#define __INTEL_MKL(_UPDATE)?__ ")
  string(REGEX REPLACE "^.*MKL__ +([0-9]+).*UPDATE__ +([0-9]+).*$" "\\1.\\2" found "${lines}")
endif()
# 2021 brought strict reproducibility (MKL_CBWR_STRICT) with AVX-512.
if(found VERSION_GREATER_EQUAL 2021)
  set(WEFT_MKL_VERSION "${found}")
  add_library(weft::mkl INTERFACE IMPORTED)
  target_include_directories(weft::mkl INTERFACE "${mkl_INCLUDE_DIR}")
  target_link_libraries(weft::mkl INTERFACE ${mkl_libraries})
  message(STATUS "Weft: fp32 products on Intel processors by MKL ${found}")
elseif(NOT WEFT_MKL STREQUAL "AUTO")
  message(FATAL_ERROR "Weft: WEFT_MKL=${WEFT_MKL} needs MKL >= 2021 (found: ${found}): mkl_cblas.h, libmkl_intel_lp64.so, \
libmkl_gnu_thread.so, libmkl_core.so; set MKLROOT or MKL_ROOT to its prefix, or run jobs/setup.sh --mkl")
endif()
