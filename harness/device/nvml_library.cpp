#include "harness/device/nvml_library.h"

#include <fmt/format.h>

namespace warptune {

NvmlLibrary::NvmlLibrary() : library_(dlopen("libnvidia-ml.so.1", RTLD_NOW)) {
  if (!library_) return;
  const auto init = reinterpret_cast<int (*)()>(dlsym(library_, "nvmlInit_v2"));
  ready_ = init && init() == 0;
}

NvmlLibrary::~NvmlLibrary() {
  if (const auto shutdown = symbol<int()>("nvmlShutdown")) shutdown();
  if (library_) dlclose(library_);
}

std::string NvmlLibrary::text_of(int code) const {
  if (const auto text = symbol<const char*(int)>("nvmlErrorString")) return text(code);
  return fmt::format("NVML error {}", code);
}

}  // namespace warptune
