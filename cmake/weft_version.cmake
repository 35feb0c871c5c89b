# What `weft --version` says beside the version: WEFT_GIT_HASH, the commit of the sources, and WEFT_BUILD_TEXT, the
# compiler and the libraries that the build found, as C++ writes a text of several lines.

include(weft_commit)

# What all computing rests on stands in the first line.
set(march "")
if(WEFT_ARCH)
  set(march ", -march=${WEFT_ARCH}")
endif()
string(REGEX MATCH "(Open MPI v[0-9.]+|MPICH Version:[ \t]*[0-9.]+)" mpi "${MPI_CXX_LIBRARY_VERSION_STRING}")
string(REGEX REPLACE "( v| Version:[ \t]*)" " " mpi "${mpi}")
if(NOT mpi)
  set(mpi "MPI ${MPI_CXX_VERSION}")
endif()
weft_header_version(dnnl_version "${dnnl_INCLUDE_DIR}/oneapi/dnnl/dnnl_version.h" DNNL_VERSION)
string(REPLACE ";" " " kokkos_devices "${Kokkos_DEVICES}")
set(WEFT_BUILD_TEXT "${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION} for ${CMAKE_SYSTEM_PROCESSOR}${march}; \
Kokkos ${Kokkos_VERSION} (${kokkos_devices}), ${mpi}, HDF5 ${HDF5_VERSION}, oneDNN ${dnnl_version}")
if(WEFT_MKL_VERSION)
  string(APPEND WEFT_BUILD_TEXT ", MKL ${WEFT_MKL_VERSION}")
endif()
if(WEFT_NVCC)
  string(APPEND WEFT_BUILD_TEXT ", CUDA ${CUDAToolkit_VERSION}")
endif()

# weft_append_line(GROUP LIBRARY...): adds a line of libraries, each with its version, or without where nobody tells it.
function(weft_append_line group)
  list(TRANSFORM ARGN STRIP OUTPUT_VARIABLE libraries)
  list(JOIN libraries ", " libraries)
  set(WEFT_BUILD_TEXT "${WEFT_BUILD_TEXT}\\n${group}: ${libraries}" PARENT_SCOPE)
endfunction()

if(WEFT_CUDA)
  weft_header_version(nccl_version "${nccl_INCLUDE_DIR}/nccl.h" NCCL PATCH)
  set(gpu_group "GPUs")
  if(WEFT_FAKECUDA)
    set(gpu_group "fakes of GPUs")
  endif()
  set(cudnn_text "without cuDNN")
  if(WEFT_CUDNN)
    set(cudnn_text "cuDNN ${cudnn_version}, its front end ${frontend_version}")
  endif()
  weft_append_line("${gpu_group}" "NCCL ${nccl_version}" "${cudnn_text}")
endif()

# No header of SentencePiece has its version, but its file for pkg-config does.
set(sentencepiece_version "")
get_filename_component(sentencepiece_folder "${sentencepiece_LIBRARY}" DIRECTORY)
if(EXISTS "${sentencepiece_folder}/pkgconfig/sentencepiece.pc")
  file(STRINGS "${sentencepiece_folder}/pkgconfig/sentencepiece.pc" line REGEX "^Version:" LIMIT_COUNT 1)
  string(REGEX REPLACE "^Version: *" "" sentencepiece_version "${line}")
endif()
set(pcre2_text "without PCRE2")
if(TARGET weft::pcre2)
  weft_header_version(pcre2_version "${pcre2_INCLUDE_DIR}/pcre2.h" PCRE2)
  set(pcre2_text "PCRE2 ${pcre2_version}")
endif()
set(utf8proc_text "without utf8proc")
if(TARGET weft::utf8proc)
  weft_header_version(utf8proc_version "${utf8proc_INCLUDE_DIR}/utf8proc.h" UTF8PROC_VERSION PATCH)
  set(utf8proc_text "utf8proc ${utf8proc_version}")
endif()
weft_append_line("tokenizers" "SentencePiece ${sentencepiece_version}" "${pcre2_text}" "${utf8proc_text}")

weft_header_version(xxhash_version "${xxhash_INCLUDE_DIR}/xxhash.h" XXH_VERSION RELEASE)
weft_append_line("other libraries" "fmt ${fmt_VERSION}" "spdlog ${spdlog_VERSION}" "toml++ ${tomlplusplus_VERSION}"
                 "CLI11 ${CLI11_VERSION}" "nlohmann-json ${nlohmann_json_VERSION}" "xxHash ${xxhash_version}"
                 "zlib ${ZLIB_VERSION_STRING}")
