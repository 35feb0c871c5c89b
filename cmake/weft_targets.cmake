# weft_library(NAME SOURCES ... DEPS ... [KOKKOS ...] [ARITHMETIC]): one static library a folder. DEPS are the arrows of docs/architecture.md:
# a header of a folder that is not among DEPS (or theirs) is not found, so the build enforces the arrows.
# KOKKOS lists the sources that include Kokkos (compiled with its flags, and by nvcc under WEFT_CUDA). ARITHMETIC: training's numbers are
# computed here, so that each source is always compiled alone; together the compiler may inline, and round, otherwise.

add_library(weft_options INTERFACE)
target_compile_options(weft_options INTERFACE -Wall -Wextra -Wno-unknown-pragmas)
if(WEFT_WARNINGS_AS_ERRORS)
  target_compile_options(weft_options INTERFACE -Werror)
endif()
if(WEFT_ARCH)
  target_compile_options(weft_options INTERFACE $<$<NOT:$<BOOL:${WEFT_CUDA}>>:-march=${WEFT_ARCH}>)
endif()
if(WEFT_SANITIZE)
  target_compile_options(weft_options INTERFACE -fsanitize=${WEFT_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(weft_options INTERFACE -fsanitize=${WEFT_SANITIZE})
endif()
if(CMAKE_BUILD_TYPE STREQUAL "Debug" OR WEFT_SANITIZE)
  target_compile_definitions(weft_options INTERFACE WEFT_DEBUG)
endif()
if(WEFT_CUDA)
  # nvcc cannot evaluate fmt 9's consteval format strings, and fmt takes it for a compiler without constexpr.
  target_compile_definitions(weft_options INTERFACE WEFT_CUDA FMT_CONSTEVAL= FMT_USE_CONSTEXPR=1)
endif()

# CMAKE_UNITY_BUILD (the presets asan and tsan; jobs/setup.sh for a first build) compiles up to eight sources of a target as one, so that
# what they include is read once. The sources named here stay alone: a name of theirs also stands in a neighbour's anonymous namespace,
# or hides one that a neighbour uses. Where a united build fails by such a name, the file belongs here, too. learning_rate.cpp is here
# because its arithmetic is training's (see ARITHMETIC).
set(WEFT_NOT_UNITED
    bucket.cpp checkpointing.cpp compare_runs.cpp duration.cpp export.cpp fetch.cpp generate.cpp index_file.cpp json_fields.cpp
    learning_rate.cpp load.cpp print.cpp summary.cpp text_runs.cpp toml_tree.cpp
    hashes_test.cpp keep_test.cpp profile_test.cpp progress_test.cpp replicas_test.cpp run_lock_faults_test.cpp summary_test.cpp
    update_test.cpp uses_test.cpp)

# weft_keep_alone(SOURCES...): of these, the ones above are compiled alone.
function(weft_keep_alone)
  foreach(source ${ARGN})
    get_filename_component(file "${source}" NAME)
    if(file IN_LIST WEFT_NOT_UNITED)
      set_source_files_properties("${source}" PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    endif()
  endforeach()
endfunction()

function(weft_library name)
  cmake_parse_arguments(A "ARITHMETIC" "" "SOURCES;KOKKOS;DEPS" ${ARGN})
  add_library(weft_${name} STATIC ${A_SOURCES} ${A_KOKKOS})
  weft_keep_alone(${A_SOURCES} ${A_KOKKOS})
  if(A_ARITHMETIC)
    set_target_properties(weft_${name} PROPERTIES UNITY_BUILD OFF)
  endif()
  add_library(weft::${name} ALIAS weft_${name})
  # Headers are included as "<folder>/<header>". Each target exports a directory that holds only a link to its own folder.
  set(view "${PROJECT_BINARY_DIR}/include/${name}")
  file(MAKE_DIRECTORY "${view}")
  file(CREATE_LINK "${CMAKE_CURRENT_SOURCE_DIR}" "${view}/${name}" SYMBOLIC)
  target_include_directories(weft_${name} PUBLIC "${view}")
  target_link_libraries(weft_${name} PUBLIC ${A_DEPS} PRIVATE weft_options)
  if(A_KOKKOS)
    target_link_libraries(weft_${name} PRIVATE Kokkos::kokkos)
  endif()
endfunction()

# weft_test(NAME SOURCES ... DEPS ... [LABEL unit] [RANKS 1 2 4] [ARGS ...] [ENVIRONMENT ...]): a GoogleTest program tests/<label>/<name>.
# Without RANKS it runs alone; with RANKS it is launched by mpirun once for each count. The target tests_<label> builds a label's tests.
function(weft_test name)
  cmake_parse_arguments(A "" "LABEL;TIMEOUT" "SOURCES;DEPS;RANKS;ARGS;ENVIRONMENT" ${ARGN})
  if(NOT A_LABEL)
    set(A_LABEL unit)
  endif()
  if(NOT A_TIMEOUT)
    set(A_TIMEOUT 300)
  endif()
  add_executable(test_${name} ${A_SOURCES})
  weft_keep_alone(${A_SOURCES})
  target_link_libraries(test_${name} PRIVATE weft_options weft::test_support ${A_DEPS})
  if(NOT WEFT_CUDA)
    target_precompile_headers(test_${name} REUSE_FROM weft_test_headers)
  endif()
  target_compile_definitions(test_${name} PRIVATE WEFT_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
                                                  WEFT_PROGRAM="${PROJECT_BINARY_DIR}/weft")
  if(NOT TARGET tests_${A_LABEL})
    add_custom_target(tests_${A_LABEL})
  endif()
  add_dependencies(tests_${A_LABEL} test_${name})
  if(A_RANKS)
    target_link_libraries(test_${name} PRIVATE weft::test_mpi)
    foreach(n ${A_RANKS})
      add_test(NAME ${A_LABEL}.${name}.np${n} COMMAND ${WEFT_MPIRUN} ${MPIEXEC_NUMPROC_FLAG} ${n} $<TARGET_FILE:test_${name}> ${A_ARGS})
      set_tests_properties(${A_LABEL}.${name}.np${n} PROPERTIES LABELS ${A_LABEL} TIMEOUT ${A_TIMEOUT} PROCESSORS ${n}
                           ENVIRONMENT "${WEFT_TEST_ENVIRONMENT};${WEFT_MPI_TEST_ENVIRONMENT};${A_ENVIRONMENT}")
    endforeach()
  else()
    add_test(NAME ${A_LABEL}.${name} COMMAND test_${name} ${A_ARGS})
    set_tests_properties(${A_LABEL}.${name} PROPERTIES LABELS ${A_LABEL} TIMEOUT ${A_TIMEOUT} ENVIRONMENT "${WEFT_TEST_ENVIRONMENT}")
  endif()
endfunction()
