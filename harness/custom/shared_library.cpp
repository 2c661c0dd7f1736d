#include "harness/custom/shared_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "harness/core/error.h"
#include "harness/custom/child_process.h"

namespace warptune {
namespace fs = std::filesystem;
namespace {

/// An include of a device, or templates without end, would take all that there is.
constexpr ChildBounds kCompilerBounds = {.seconds = 120, .memory_bytes = 2ull << 30};

/// Compiles in a folder of its own, which is removed on every path.
void compile(const fs::path& folder, const std::string& text, const std::string& name,
             const std::vector<std::string>& options) {
  const fs::path source = folder / "source.cpp";
  if (!(std::ofstream(source) << text).flush()) throw InputError("'{}' cannot be written", source.string());
  std::vector<std::string> words;
  const char* given = std::getenv("CXX");
  std::istringstream compiler(given && *given ? given : "c++");
  for (std::string word; compiler >> word;) words.push_back(word);
  words.insert(words.end(), {"-std=c++20", "-x", "c++", source.string()});
  words.insert(words.end(), options.begin(), options.end());
  run_program(fmt::format("'{}' does not compile", name), kCompilerBounds, words, folder);
}

}  // namespace

void check_cpp(const std::string& text, const std::string& name, const std::vector<std::string>& options) {
  const TemporaryFolder folder;
  std::vector<std::string> all = options;
  all.emplace_back("-fsyntax-only");
  compile(folder.path(), text, name, all);
}

SharedLibrary::SharedLibrary(const std::string& text, const std::string& name,
                             const std::vector<std::string>& options) {
  const TemporaryFolder folder;
  const fs::path library = folder.path() / "reference.so";
  std::vector<std::string> all = options;
  all.insert(all.end(), {"-O2", "-shared", "-fPIC", "-Wl,-Bsymbolic", "-o", library.string()});
  compile(folder.path(), text, name, all);
  handle_ = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle_) throw InputError("'{}' cannot be loaded: {}", name, ::dlerror());
}
SharedLibrary::~SharedLibrary() { ::dlclose(handle_); }

void* SharedLibrary::symbol(const std::string& name) const { return ::dlsym(handle_, name.c_str()); }

}  // namespace warptune
