# Checks that every file and folder which the documents name exists:
#
#   cmake -D SOURCE=WEFT -P check_paths.cmake
#
# The documents are all *.md of the tree's root, docs, jobs and perf. A path in them is a word that ends as a source does (.cpp, .md,
# ...) or begins with a folder of the tree (src/, tests/, ...). It is written as seen from the tree's root, or as #include writes it
# (ckpt/load.hpp: below src/, comm/ or kernels/), or as a link beside the document; a file's name alone will do. NAME and N stand for any
# name, and a program is named without its .cpp (perf/bench_comm). Each path that does not exist is one line, and the exit status is not 0.
#
# And that CITATION.cff and the first heading of CHANGELOG.md have the version of CMakeLists.txt.

cmake_minimum_required(VERSION 3.22)

set(folders "src|comm|kernels|tests|docs|perf|jobs|inputs|cmake")
set(examples inputs/my.toml)  # what a user would have

file(GLOB documents RELATIVE "${SOURCE}" "${SOURCE}/*.md" "${SOURCE}/docs/*.md" "${SOURCE}/jobs/*.md" "${SOURCE}/perf/*/*.md")
file(GLOB_RECURSE sources RELATIVE "${SOURCE}" "${SOURCE}/src/*" "${SOURCE}/comm/*" "${SOURCE}/kernels/*" "${SOURCE}/tests/*" "${SOURCE}/perf/*"
     "${SOURCE}/jobs/*" "${SOURCE}/cmake/*" "${SOURCE}/docs/*" "${SOURCE}/inputs/*" "${SOURCE}/*.md")
list(TRANSFORM sources REPLACE "^.*/" "" OUTPUT_VARIABLE names)

function(exists path result)
  string(REGEX REPLACE "NAME|_N$" "*" path "${path}")
  set(${result} FALSE PARENT_SCOPE)
  if(path IN_LIST names)
    set(${result} TRUE PARENT_SCOPE)
    return()
  endif()
  get_filename_component(beside "${document}" DIRECTORY)
  foreach(base "" src/ "${beside}/")
    file(GLOB found "${SOURCE}/${base}${path}" "${SOURCE}/${base}${path}.cpp")
    if(found)
      set(${result} TRUE PARENT_SCOPE)
      return()
    endif()
  endforeach()
endfunction()

set(checked 0)
foreach(document ${documents})
  file(STRINGS "${SOURCE}/${document}" lines REGEX "\\.(cpp|hpp|cu|cmake|sh|py|md|patch)|(${folders})/" ENCODING UTF-8)
  set(seen "")
  foreach(line IN LISTS lines)
    string(REGEX REPLACE "[a-z]+://[^ )]*" "" line "${line}")  # addresses
    string(REGEX MATCHALL "[A-Za-z0-9_./*-]+" words "${line}")
    foreach(word ${words})
      string(REGEX REPLACE "[./]+$" "" word "${word}")
      if((word MATCHES "[^.]\\.(cpp|hpp|cu|cmake|sh|py|md|patch)$" OR word MATCHES "^(${folders})/") AND NOT word IN_LIST seen)
        list(APPEND seen "${word}")
        math(EXPR checked "${checked} + 1")
        exists("${word}" found)
        if(NOT found AND NOT word IN_LIST examples)
          message(SEND_ERROR "${document}: ${word} does not exist (it was moved or renamed); name what stands there now")
        endif()
      endif()
    endforeach()
  endforeach()
endforeach()
if(checked LESS 100)
  message(FATAL_ERROR "only ${checked} paths were found in the documents of ${SOURCE} (there are more); is this Weft's source tree?")
endif()
message(STATUS "${checked} paths exist")

foreach(pattern "CMakeLists.txt;project\\(weft VERSION ([0-9.]+)" "CITATION.cff;version: ([0-9.]+)" "CHANGELOG.md;## ([0-9.]+)")
  list(GET pattern 0 file)
  list(GET pattern 1 expression)
  file(STRINGS "${SOURCE}/${file}" line REGEX "^${expression}" LIMIT_COUNT 1)
  string(REGEX MATCH "${expression}" line "${line}")
  list(APPEND versions "${CMAKE_MATCH_1}")
endforeach()
list(REMOVE_DUPLICATES versions)
list(LENGTH versions count)
if(NOT count EQUAL 1)
  message(FATAL_ERROR "CMakeLists.txt, CITATION.cff and CHANGELOG.md have other versions: ${versions}")
endif()
message(STATUS "all have version ${versions}")
