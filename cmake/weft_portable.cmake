# The preset `portable`: Weft is built once for each level of x86-64, as libexec/weft/<level>, and bin/weft (src/portable.cpp) becomes the
# one for its processor. Whole programs, because the linker keeps one copy of a library's inline functions, which may be for a newer level.
include(ExternalProject)
if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
  message(FATAL_ERROR "Weft: the preset portable is for x86-64; this is ${CMAKE_SYSTEM_PROCESSOR}")
endif()

set(WEFT_LEVELS x86-64-v2 x86-64-v3 x86-64-v4 CACHE STRING "The levels of x86-64 that the preset portable builds for")

add_executable(weft src/portable.cpp)
target_compile_features(weft PRIVATE cxx_std_20)
target_compile_options(weft PRIVATE -Wall -Wextra -march=x86-64)
set_target_properties(weft PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")

# What the command line says of compilers and libraries holds for each program. Flags are passed by name, because project() gives them a
# help text of its own.
set(given "")
foreach(variable CMAKE_C_FLAGS CMAKE_CXX_FLAGS CMAKE_EXE_LINKER_FLAGS CMAKE_SHARED_LINKER_FLAGS)
  list(APPEND given "-D${variable}:STRING=${${variable}}")
endforeach()
get_cmake_property(variables CACHE_VARIABLES)
foreach(variable ${variables})
  get_property(help CACHE ${variable} PROPERTY HELPSTRING)
  if(help MATCHES "specified on the command line" AND NOT variable MATCHES "^WEFT_(PORTABLE|LEVELS)$")
    get_property(type CACHE ${variable} PROPERTY TYPE)
    string(REPLACE UNINITIALIZED STRING type "${type}")
    list(APPEND given "-D${variable}:${type}=${${variable}}")
  endif()
endforeach()

set(libexec "${PROJECT_BINARY_DIR}/libexec/weft")
file(MAKE_DIRECTORY "${libexec}")
set(before "")
foreach(level ${WEFT_LEVELS})
  # One after the other: each build uses all cores.
  ExternalProject_Add(weft_${level} DEPENDS ${before}
    SOURCE_DIR "${PROJECT_SOURCE_DIR}" BINARY_DIR "${PROJECT_BINARY_DIR}/${level}" PREFIX "${PROJECT_BINARY_DIR}/steps"
    CMAKE_CACHE_ARGS ${given} "-DCMAKE_BUILD_TYPE:STRING=${CMAKE_BUILD_TYPE}" "-DCMAKE_C_COMPILER:STRING=${CMAKE_C_COMPILER}"
      "-DCMAKE_CXX_COMPILER:STRING=${CMAKE_CXX_COMPILER}" "-DWEFT_ARCH:STRING=${level}" -DCMAKE_BUILD_WITH_INSTALL_RPATH:BOOL=ON
    BUILD_COMMAND "${CMAKE_COMMAND}" --build <BINARY_DIR> --target weft BUILD_ALWAYS ON USES_TERMINAL_BUILD ON
    INSTALL_COMMAND "${CMAKE_COMMAND}" -E copy_if_different <BINARY_DIR>/weft "${libexec}/${level}")
  set(before weft_${level})
endforeach()

include(GNUInstallDirs)
foreach(level ${WEFT_LEVELS})
  install(PROGRAMS "${libexec}/${level}" DESTINATION libexec/weft)
endforeach()
