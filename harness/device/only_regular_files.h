#pragma once
// Keeps the run-time compiler from opening what is no file: an include of a pipe would wait forever, and a
// device has no end.
#include <string>

namespace warptune {

/// While one lives, fopen() on this thread opens regular files only.
class OnlyRegularFiles {
 public:
  OnlyRegularFiles();
  ~OnlyRegularFiles();
  OnlyRegularFiles(const OnlyRegularFiles&) = delete;
  OnlyRegularFiles& operator=(const OnlyRegularFiles&) = delete;

  /// The first path that was not opened; empty: none.
  const std::string& refused() const { return refused_; }
  /// Whether fopen() may open a path; remembers the first that it may not.
  bool allows(const char* path);

 private:
  std::string refused_;
  OnlyRegularFiles* outer_;
};

}  // namespace warptune
