# WEFT_GIT_HASH, the commit of the sources, or "unknown".

# A source bundle (jobs/bundle.sh) brings its commit in a file; elsewhere git is asked, where it knows these sources:
# an archive may be unpacked below another repository. A build configures again when the commit is another one: git
# writes HEAD when it is another branch, and the branch's own file when that moves. Of a packed branch there is no such
# file yet; git makes it in its folder, whose time then changes. Of all sources, only version.cpp is compiled again.
# Uncommitted changes are not marked: such a mark would be of the last configuration, and wrong from the next edit on.
# Builds of one commit differ in their build id (src/base/build_id.hpp).
function(weft_git result)
  execute_process(COMMAND ${GIT_EXECUTABLE} ${ARGN} WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}"
                  OUTPUT_VARIABLE said OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(failed)
    set(said "")
  endif()
  set(${result} "${said}" PARENT_SCOPE)
endfunction()

set(WEFT_GIT_HASH "unknown")
set(bundled_commit "${PROJECT_SOURCE_DIR}/third_party/weft_commit")
find_package(Git QUIET)
if(EXISTS "${bundled_commit}")
  file(STRINGS "${bundled_commit}" hash LIMIT_COUNT 1)
  string(SUBSTRING "${hash}" 0 12 WEFT_GIT_HASH)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${bundled_commit}")
elseif(Git_FOUND)
  weft_git(hash rev-parse --short=12 HEAD)
  weft_git(own ls-files --error-unmatch cmake/weft_commit.cmake)
  if(hash AND own)
    set(WEFT_GIT_HASH "${hash}")
    weft_git(branch symbolic-ref --quiet HEAD)  # nothing where HEAD is no branch
    foreach(name HEAD ${branch})
      weft_git(file rev-parse --git-path "${name}")
      get_filename_component(file "${file}" ABSOLUTE BASE_DIR "${PROJECT_SOURCE_DIR}")
      while(name STREQUAL branch AND NOT EXISTS "${file}")
        get_filename_component(file "${file}" DIRECTORY)
      endwhile()
      if(EXISTS "${file}")
        set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${file}")
      endif()
    endforeach()
  endif()
endif()
