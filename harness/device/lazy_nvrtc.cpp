#if WARPTUNE_HAS_CUDA
// The functions of NVRTC that the harness calls, which load the library with the first call
// (harness/core/lazy_library.h). The program is linked with these in place of the library.
#include <cuda_runtime_api.h>
#include <nvrtc.h>

#include <string>

#include "harness/core/lazy_library.h"

namespace {

/// Calls the function of the library that has the name of `kFunction`.
template <auto* kFunction, class... Arguments>
auto call(const char* name, Arguments... arguments) {
  static auto* const function = reinterpret_cast<decltype(kFunction)>(
      warptune::library_function("libnvrtc.so." + std::to_string(CUDART_VERSION / 1000), name));
  return function(arguments...);
}

}  // namespace

extern "C" {

nvrtcResult nvrtcVersion(int* major, int* minor) { return call<nvrtcVersion>("nvrtcVersion", major, minor); }
const char* nvrtcGetErrorString(nvrtcResult result) {
  return call<nvrtcGetErrorString>("nvrtcGetErrorString", result);
}

nvrtcResult nvrtcCreateProgram(nvrtcProgram* program, const char* text, const char* name, int headers,
                               const char* const* texts, const char* const* names) {
  return call<nvrtcCreateProgram>("nvrtcCreateProgram", program, text, name, headers, texts, names);
}
nvrtcResult nvrtcDestroyProgram(nvrtcProgram* program) {
  return call<nvrtcDestroyProgram>("nvrtcDestroyProgram", program);
}
nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int count, const char* const* options) {
  return call<nvrtcCompileProgram>("nvrtcCompileProgram", program, count, options);
}

nvrtcResult nvrtcAddNameExpression(nvrtcProgram program, const char* expression) {
  return call<nvrtcAddNameExpression>("nvrtcAddNameExpression", program, expression);
}
nvrtcResult nvrtcGetLoweredName(nvrtcProgram program, const char* expression, const char** name) {
  return call<nvrtcGetLoweredName>("nvrtcGetLoweredName", program, expression, name);
}

nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, size_t* bytes) {
  return call<nvrtcGetCUBINSize>("nvrtcGetCUBINSize", program, bytes);
}
nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char* cubin) {
  return call<nvrtcGetCUBIN>("nvrtcGetCUBIN", program, cubin);
}
nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, size_t* bytes) {
  return call<nvrtcGetProgramLogSize>("nvrtcGetProgramLogSize", program, bytes);
}
nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char* log) {
  return call<nvrtcGetProgramLog>("nvrtcGetProgramLog", program, log);
}

}  // extern "C"
#endif
