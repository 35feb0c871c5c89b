# Checks that what is CUDA's own stands in the files that docs/architecture.md lists, and nowhere else:
#
#   cmake -D SOURCE=WEFT -P check_devices.cmake
#
# A port to another device reads that list. A source has something of CUDA's own when a line that is no comment names CUDA's or its
# libraries' functions, types, headers or macros. Each file that the list lacks, or has for nothing, is one line, and the exit status is
# not 0.

cmake_minimum_required(VERSION 3.22)

set(words "[^A-Za-z]cuda[A-Z]|<cuda|CUDA_|KOKKOS_ENABLE_CUDA|__CUDA|Kokkos::Cuda|cublas|cudnn[A-Z_]|cudnn\\.h|nccl[A-Z]|nccl\\.h|WEFT_CUDA")
file(STRINGS "${SOURCE}/docs/architecture.md" document ENCODING UTF-8)
set(listed "")
set(inside FALSE)
foreach(line IN LISTS document)
  if(line MATCHES "^## ")
    set(inside FALSE)
  endif()
  if(line MATCHES "^## What is CUDA's own")
    set(inside TRUE)
  elseif(inside AND line MATCHES "^\\| `([^`]+)`")
    list(APPEND listed "${CMAKE_MATCH_1}")
  endif()
endforeach()
if(NOT listed)
  message(FATAL_ERROR "docs/architecture.md has no table under '## What is CUDA's own'; is this Weft's source tree?")
endif()

file(GLOB_RECURSE sources RELATIVE "${SOURCE}" "${SOURCE}/src/*.[ch]pp" "${SOURCE}/comm/*.[ch]pp" "${SOURCE}/comm/*.cu"
     "${SOURCE}/kernels/*.[ch]pp")
set(found "")
foreach(source ${sources})
  file(STRINGS "${SOURCE}/${source}" lines REGEX "${words}")
  foreach(line IN LISTS lines)
    string(REGEX REPLACE "//.*$" "" code "${line}")
    if(code MATCHES "${words}")
      list(APPEND found "${source}")
      break()
    endif()
  endforeach()
endforeach()

foreach(source ${found})
  if(NOT source IN_LIST listed)
    message(SEND_ERROR "${source} has something of CUDA's own; put it into a file that docs/architecture.md lists, or list it")
  endif()
endforeach()
foreach(source ${listed})
  if(NOT source IN_LIST found)
    message(SEND_ERROR "${source} is listed in docs/architecture.md, \"What is CUDA's own\", and has nothing of it; take it out")
  endif()
endforeach()
list(LENGTH found count)
message(STATUS "${count} files have something of CUDA's own, as docs/architecture.md lists them")
