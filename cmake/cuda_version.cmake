# Whether a CUDA Toolkit is new enough. From 12.2 on NVRTC compiles the kernels and the runtime launches what the driver
# loads; what newer runtimes do themselves is used where it is there (harness/device/loaded_kernel.cpp).
set(WARPTUNE_CUDA_VERSION 12.2)

# Ends the configuration where a toolkit is installed that cannot be used. `version` and `nvcc` are empty where there is none.
function(check_cuda_version version nvcc)
  set(remedy "install CUDA Toolkit ${WARPTUNE_CUDA_VERSION} or newer (CUDAToolkit_ROOT names its folder), or build only the host device with -DWARPTUNE_CUDA=OFF")
  if(version AND version VERSION_LESS WARPTUNE_CUDA_VERSION)
    message(FATAL_ERROR "warptune: CUDA Toolkit ${version} is found, ${WARPTUNE_CUDA_VERSION} is needed: ${remedy}")
  elseif(nvcc AND NOT version)
    message(FATAL_ERROR "warptune: '${nvcc}' is there, but no CUDA Toolkit with headers and libraries: ${remedy}")
  endif()
endfunction()
