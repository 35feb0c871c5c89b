# weft_library(NAME SOURCES ... DEPS ... [PRIVATE_DEPS ...] [KOKKOS ...] [ARITHMETIC] [COLD]): makes one static library of a
# folder. DEPS are the folders that its headers include, and PRIVATE_DEPS those that only its sources include:
# the arrows of docs/architecture.md. The test unit.arrows compares both with the #include lines, so that
# nothing is declared that is not used, and nothing is used that is not declared. KOKKOS lists the sources
# that include Kokkos (compiled with its flags, and by nvcc under WEFT_NVCC). ARITHMETIC: training's bits and its speed are made here, so
# its sources are optimised fully, and each is compiled alone (below) where users train with it. COLD: what is done once, or once a
# second, is done here, and -O1 will do. All other folders have -O2. That saves a tenth of a first build.

add_library(weft_options INTERFACE)
target_compile_options(weft_options INTERFACE -Wall -Wextra -Wno-unknown-pragmas)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  # libstdc++ 12's own stable_sort calls what it deprecates, and Kokkos asks for loops as vectors that cannot be.
  target_compile_options(weft_options INTERFACE -Wno-deprecated-declarations -Wno-pass-failed)
endif()
if(CMAKE_UNITY_BUILD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(weft_options INTERFACE -Wno-subobject-linkage)  # GCC takes a source that another one includes for a header
endif()
if(WEFT_WARNINGS_AS_ERRORS)
  target_compile_options(weft_options INTERFACE -Werror)
endif()
if(WEFT_ARCH)
  target_compile_options(weft_options INTERFACE $<$<NOT:$<BOOL:${WEFT_NVCC}>>:-march=${WEFT_ARCH}>)
endif()
if(WEFT_SANITIZE)
  target_compile_options(weft_options INTERFACE -fsanitize=${WEFT_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(weft_options INTERFACE -fsanitize=${WEFT_SANITIZE})
endif()
if(CMAKE_BUILD_TYPE STREQUAL "Debug" OR WEFT_SANITIZE)
  target_compile_definitions(weft_options INTERFACE WEFT_DEBUG)
endif()
if(WEFT_CUDA)
  target_compile_definitions(weft_options INTERFACE WEFT_CUDA)
endif()
if(WEFT_HIP)
  target_compile_definitions(weft_options INTERFACE WEFT_HIP)
endif()
if(WEFT_NVCC)
  # nvcc cannot evaluate fmt 9's consteval format strings, and fmt takes it for a compiler without constexpr.
  target_compile_definitions(weft_options INTERFACE FMT_CONSTEVAL= FMT_USE_CONSTEXPR=1)
endif()
if(WEFT_FAKECUDA)
  target_compile_definitions(weft_options INTERFACE WEFT_FAKECUDA)
endif()

# CMAKE_UNITY_BUILD (the presets asan and tsan; jobs/setup.sh for a first build) compiles up to eight sources of a target as one, so that
# what they include is read once. The sources named here stay alone: a name of theirs also stands in a neighbour's anonymous namespace,
# or hides one that a neighbour uses. Where a united build fails by such a name, the file belongs here, too. learning_rate.cpp and
# reduce.cpp are here because their arithmetic is training's (see ARITHMETIC).
set(WEFT_NOT_UNITED
    bucket.cpp checkpointing.cpp compare_runs.cpp duration.cpp export.cpp fetch.cpp generate.cpp index_file.cpp json_fields.cpp
    learning_rate.cpp load.cpp print.cpp reduce.cpp split_product.cpp summary.cpp text_reader.cpp text_runs.cpp token_file.cpp toml_tree.cpp
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
  cmake_parse_arguments(A "ARITHMETIC;COLD" "" "SOURCES;KOKKOS;DEPS;PRIVATE_DEPS" ${ARGN})
  add_library(weft_${name} STATIC ${A_SOURCES})
  weft_keep_alone(${A_SOURCES} ${A_KOKKOS})
  if(NOT A_ARITHMETIC)
    target_compile_options(weft_${name} PRIVATE $<$<CONFIG:Release>:$<IF:$<BOOL:${A_COLD}>,-O1,-O2>>)
  elseif(NOT WEFT_SANITIZE AND NOT WEFT_FAKECUDA)  # nobody compares the bits of those builds with another one's
    set_target_properties(weft_${name} PROPERTIES UNITY_BUILD OFF)
  endif()
  add_library(weft::${name} ALIAS weft_${name})
  # Headers are included as "<folder>/<header>". Each target exports a directory that holds only a link to its own folder.
  set(view "${PROJECT_BINARY_DIR}/include/${name}")
  file(MAKE_DIRECTORY "${view}")
  file(CREATE_LINK "${CMAKE_CURRENT_SOURCE_DIR}" "${view}/${name}" SYMBOLIC)
  target_include_directories(weft_${name} PUBLIC "${view}")
  list(TRANSFORM A_DEPS PREPEND "weft::" OUTPUT_VARIABLE public)
  list(TRANSFORM A_PRIVATE_DEPS PREPEND "weft::" OUTPUT_VARIABLE private)
  target_link_libraries(weft_${name} PUBLIC ${public} PRIVATE ${private} weft_options)
  if(A_KOKKOS AND WEFT_NVCC)
    # Apart, because nvcc takes twenty seconds to read Kokkos and ten times as long as the host's compiler for what needs no device.
    add_library(weft_${name}_device OBJECT ${A_KOKKOS})
    target_include_directories(weft_${name}_device PRIVATE "${view}")
    target_link_libraries(weft_${name}_device PRIVATE ${public} ${private} weft_options Kokkos::kokkos)
    target_sources(weft_${name} PRIVATE $<TARGET_OBJECTS:weft_${name}_device>)
    target_link_libraries(weft_${name} INTERFACE $<LINK_ONLY:Kokkos::kokkos>)
  elseif(A_KOKKOS)
    target_sources(weft_${name} PRIVATE ${A_KOKKOS})
    target_link_libraries(weft_${name} PRIVATE Kokkos::kokkos)
  endif()
  file(WRITE "${PROJECT_BINARY_DIR}/arrows/${name}.cmake"
       "set(folder \"${CMAKE_CURRENT_SOURCE_DIR}\")\nset(public \"${A_DEPS}\")\nset(private \"${A_PRIVATE_DEPS}\")\n")
  if(WEFT_TESTS AND NOT WEFT_CUDA AND NOT WEFT_SANITIZE)
    if(A_KOKKOS)
      weft_compile_lone_headers(${name} Kokkos::kokkos)
    else()
      weft_compile_lone_headers(${name})
    endif()
  endif()
endfunction()

# Compiles alone each header that has no source beside it. A header with a source is the first that its source
# includes (unit.arrows checks that), which is as good. The cpu preset does this for all other headers.
function(weft_compile_lone_headers name)  # the further arguments are what the headers need
  file(GLOB_RECURSE headers RELATIVE "${CMAKE_CURRENT_SOURCE_DIR}" CONFIGURE_DEPENDS *.hpp)
  list(FILTER headers EXCLUDE REGEX "cudnn_graph")  # it needs cuDNN's front end, which only builds for NVIDIA have
  set(sources "")
  foreach(header ${headers})
    string(REGEX REPLACE "\\.hpp$" "" stem "${header}")
    if(NOT EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/${stem}.cpp" AND NOT EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/${stem}.cu")
      set(source "${PROJECT_BINARY_DIR}/headers/${name}/${stem}.cpp")
      file(CONFIGURE OUTPUT "${source}" CONTENT "#include \"${name}/${header}\"\n")
      list(APPEND sources "${source}")
    endif()
  endforeach()
  if(sources)
    add_library(weft_${name}_headers OBJECT ${sources})
    set_target_properties(weft_${name}_headers PROPERTIES UNITY_BUILD OFF)
    target_link_libraries(weft_${name}_headers PRIVATE weft_${name} weft_options ${ARGN})
  endif()
endfunction()

# weft_test_environment(TEST [VARIABLE=VALUE ...]): the environment of one test of CTest. Open MPI removes a directory that jobs beside each
# other share when a job ends, and another one that starts at this moment fails; so each test has a directory of its own. Its path is
# short, because sockets stand in it.
function(weft_test_environment test)
  string(MD5 build "${PROJECT_BINARY_DIR}")
  string(SUBSTRING ${build} 0 8 build)
  set(session /tmp/weft_tests_${build}/${test})
  set_tests_properties(${test} PROPERTIES ENVIRONMENT
                       "${WEFT_TEST_ENVIRONMENT};OMPI_MCA_orte_tmpdir_base=${session};PRTE_MCA_prte_tmpdir_base=${session};${ARGN}")
endfunction()

# weft_test(NAME SOURCES ... DEPS ... [LABEL unit] [RANKS 1 2 4] [SHARDS n] [ARGS ...] [ENVIRONMENT ...]): a GoogleTest program
# tests/<label>/<name>. Without RANKS it runs alone; with RANKS it is launched by mpirun once for each count. Its tests are dealt out to
# SHARDS tests of CTest, which run beside each other. The target tests_<label> builds a label's tests.
function(weft_test name)
  cmake_parse_arguments(A "" "LABEL;TIMEOUT;SHARDS" "SOURCES;DEPS;RANKS;ARGS;ENVIRONMENT" ${ARGN})
  if(NOT A_LABEL)
    set(A_LABEL unit)
  endif()
  if(NOT A_TIMEOUT)
    set(A_TIMEOUT 300)
  endif()
  add_executable(test_${name} ${A_SOURCES})
  weft_keep_alone(${A_SOURCES})
  target_link_libraries(test_${name} PRIVATE weft_options weft::test_support ${A_DEPS})
  if(NOT WEFT_NVCC)
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
    cmake_host_system_information(RESULT cores QUERY NUMBER_OF_LOGICAL_CORES)
    foreach(n ${A_RANKS})
      set(processors ${n})
      if(n GREATER cores)  # such ranks take turns on all cores; another test that only waits may run beside them
        set(processors ${cores})
      endif()
      add_test(NAME ${A_LABEL}.${name}.np${n} COMMAND ${WEFT_MPIRUN} ${MPIEXEC_NUMPROC_FLAG} ${n} ${CMAKE_CROSSCOMPILING_EMULATOR}
               $<TARGET_FILE:test_${name}> ${A_ARGS})
      set_tests_properties(${A_LABEL}.${name}.np${n} PROPERTIES LABELS ${A_LABEL} TIMEOUT ${A_TIMEOUT} PROCESSORS ${processors})
      weft_test_environment(${A_LABEL}.${name}.np${n} ${WEFT_MPI_TEST_ENVIRONMENT} ${A_ENVIRONMENT})
    endforeach()
  elseif(A_SHARDS)
    math(EXPR last "${A_SHARDS} - 1")
    foreach(shard RANGE ${last})
      add_test(NAME ${A_LABEL}.${name}.${shard} COMMAND test_${name} ${A_ARGS})
      set_tests_properties(${A_LABEL}.${name}.${shard} PROPERTIES LABELS ${A_LABEL} TIMEOUT ${A_TIMEOUT})
      weft_test_environment(${A_LABEL}.${name}.${shard} GTEST_TOTAL_SHARDS=${A_SHARDS} GTEST_SHARD_INDEX=${shard})
    endforeach()
  else()
    add_test(NAME ${A_LABEL}.${name} COMMAND test_${name} ${A_ARGS})
    set_tests_properties(${A_LABEL}.${name} PROPERTIES LABELS ${A_LABEL} TIMEOUT ${A_TIMEOUT})
    weft_test_environment(${A_LABEL}.${name})
  endif()
endfunction()
