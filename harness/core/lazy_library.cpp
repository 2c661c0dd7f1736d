#include "harness/core/lazy_library.h"

#include <dlfcn.h>

namespace warptune {

void* library_function(const std::string& library, const char* function) {
  void* const handle = ::dlopen(library.c_str(), RTLD_LAZY | RTLD_LOCAL);
  void* const address = handle ? ::dlsym(handle, function) : nullptr;
  if (!address) throw LibraryError("'{}' cannot be loaded: {}", library, ::dlerror());
  return address;
}

}  // namespace warptune
