# The CUDA Toolkit: CUDAToolkit_FOUND and its targets. A machine without one builds the host device; one whose toolkit
# is too old or incomplete fails, since its user expects the GPU.
include(cmake/cuda_version.cmake)
find_package(CUDAToolkit QUIET)
if(CUDAToolkit_FOUND)
  check_cuda_version("${CUDAToolkit_VERSION}" "")
else()
  find_program(WARPTUNE_NVCC nvcc PATHS /usr/local/cuda/bin)
  mark_as_advanced(WARPTUNE_NVCC)
  if(WARPTUNE_NVCC)
    check_cuda_version("" "${WARPTUNE_NVCC}")
  endif()
endif()
