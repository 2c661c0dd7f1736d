#if WARPTUNE_HAS_CUDA
#include "harness/device/only_regular_files.h"

#include <dlfcn.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>

namespace warptune {
namespace {

thread_local OnlyRegularFiles* active = nullptr;

/// Calls the function of the C library, unless the path is refused.
std::FILE* open_file(const char* function, const char* path, const char* mode) {
  if (active && !active->allows(path)) {
    errno = ENXIO;
    return nullptr;
  }
  return reinterpret_cast<std::FILE* (*)(const char*, const char*)>(dlsym(RTLD_NEXT, function))(path, mode);
}

}  // namespace

OnlyRegularFiles::OnlyRegularFiles() : outer_(active) { active = this; }
OnlyRegularFiles::~OnlyRegularFiles() { active = outer_; }

bool OnlyRegularFiles::allows(const char* path) {
  struct stat facts {};
  if (::stat(path, &facts) != 0 || S_ISREG(facts.st_mode) || S_ISDIR(facts.st_mode)) return true;
  if (refused_.empty()) refused_ = path;
  return false;
}

}  // namespace warptune

// NVRTC opens includes with fopen(). The linker resolves its call to these definitions, since a program comes
// before the libraries that it is linked with.
extern "C" {
std::FILE* fopen(const char* path, const char* mode) { return warptune::open_file("fopen", path, mode); }
std::FILE* fopen64(const char* path, const char* mode) { return warptune::open_file("fopen64", path, mode); }
}
#endif
