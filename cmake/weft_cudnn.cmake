# Sets WEFT_CUDNN where there are cuDNN and the headers of its C++ front end (cmake/get_cudnn_frontend.sh
# fetches them), and makes weft::cudnn and weft::cudnn_frontend. Without them attention runs on Kokkos, which
# is correct but does without tensor cores.

weft_find_library(cudnn cudnn.h cudnn OPTIONAL ${cuda_parts})
find_path(cudnn_frontend_INCLUDE_DIR cudnn_frontend.h HINTS ${cudnn_frontend_ROOT} $ENV{cudnn_frontend_ROOT} PATH_SUFFIXES include)
mark_as_advanced(cudnn_frontend_INCLUDE_DIR)
weft_header_version(cudnn_version "${cudnn_INCLUDE_DIR}/cudnn_version.h" CUDNN)
weft_header_version(frontend_version "${cudnn_frontend_INCLUDE_DIR}/cudnn_frontend_version.h" CUDNN_FRONTEND)

if(TARGET weft::cudnn AND cudnn_version VERSION_GREATER_EQUAL 9.0 AND frontend_version VERSION_GREATER_EQUAL 1.32)
  set(WEFT_CUDNN ON)
  add_library(weft::cudnn_frontend INTERFACE IMPORTED)
  target_include_directories(weft::cudnn_frontend INTERFACE "${cudnn_frontend_INCLUDE_DIR}")
  target_compile_definitions(weft::cudnn_frontend INTERFACE CUDNN_FRONTEND_SKIP_JSON_LIB)
  target_link_libraries(weft::cudnn_frontend INTERFACE weft::cudnn)
  if(WEFT_NVCC)  # engines that Weft never asks for need nvrtc
    target_link_libraries(weft::cudnn_frontend INTERFACE CUDA::cudart CUDA::nvrtc)
  endif()
  message(STATUS "Weft: attention by cuDNN ${cudnn_version}, front end ${frontend_version}")
else()
  set(WEFT_CUDNN OFF)
  message(STATUS "Weft: attention by Kokkos, without tensor cores: it takes cuDNN >= 9.0 (found: ${cudnn_version}) and its front end \
>= 1.32 (found: ${frontend_version}); set cudnn_ROOT, cudnn_frontend_ROOT")
endif()
