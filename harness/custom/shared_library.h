#pragma once
// A C++ file compiled by $CXX or c++ and loaded into this process.
#include <filesystem>
#include <string>

namespace warptune {

/// Runs a command. Throws InputError that begins with `what` and ends with the compiler's first error, else
/// with the last line, if it fails.
void run_command(const std::string& command, const std::string& what);
/// A word of a shell's command line.
std::string shell_word(const std::string& word);

/// A new folder that is removed at the end.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

class SharedLibrary {
 public:
  /// `name` is the file as messages name it. Throws InputError where it does not compile.
  SharedLibrary(const std::filesystem::path& source, const std::string& name);
  ~SharedLibrary();
  SharedLibrary(const SharedLibrary&) = delete;
  SharedLibrary& operator=(const SharedLibrary&) = delete;
  /// Null where there is no such function.
  template <class F>
  F* function(const std::string& name) const {
    return reinterpret_cast<F*>(symbol(name));
  }

 private:
  void* symbol(const std::string& name) const;
  void* handle_ = nullptr;
};

}  // namespace warptune
