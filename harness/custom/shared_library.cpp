#include "harness/custom/shared_library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>

#include "harness/core/error.h"

namespace warptune {
namespace fs = std::filesystem;

std::string shell_word(const std::string& word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

void run_command(const std::string& command, const std::string& what) {
  std::FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  if (!pipe) throw InputError(what + ": no process could be started");
  std::string text;
  std::array<char, 4096> buffer;
  while (const auto n = std::fread(buffer.data(), 1, buffer.size(), pipe)) text.append(buffer.data(), n);
  if (::pclose(pipe) == 0) return;
  while (text.ends_with('\n')) text.pop_back();
  const auto error = text.find("error:");  // of a compiler; Python's is in the last line
  const auto begin = error == std::string::npos ? text.rfind('\n') + 1 : text.rfind('\n', error) + 1;
  throw InputError(fmt::format("{}: {}", what, text.substr(begin, text.find('\n', begin) - begin)));
}

TemporaryFolder::TemporaryFolder() {
  std::string name = (fs::temp_directory_path() / "warptune-reference-XXXXXX").string();
  if (!::mkdtemp(name.data())) throw std::runtime_error("no temporary folder for a reference");
  path_ = name;
}
TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

SharedLibrary::SharedLibrary(const fs::path& source, const std::string& name) {
  const TemporaryFolder folder;
  const fs::path library = folder.path() / "reference.so";
  const char* compiler = std::getenv("CXX");
  run_command(fmt::format("{} -O2 -std=c++20 -shared -fPIC -x c++ -o {} {}", compiler ? compiler : "c++",
                          shell_word(library.string()), shell_word(source.string())),
              fmt::format("'{}' does not compile", name));
  handle_ = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle_) throw InputError(fmt::format("'{}' cannot be loaded: {}", name, ::dlerror()));
}
SharedLibrary::~SharedLibrary() { ::dlclose(handle_); }

void* SharedLibrary::symbol(const std::string& name) const { return ::dlsym(handle_, name.c_str()); }

}  // namespace warptune
