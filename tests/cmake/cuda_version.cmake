# cmake -DVERSION=.. -DNVCC=.. -P: what configuring with such a toolkit says.
include(${CMAKE_CURRENT_LIST_DIR}/../../cmake/cuda_version.cmake)
check_cuda_version("${VERSION}" "${NVCC}")
message("usable")
