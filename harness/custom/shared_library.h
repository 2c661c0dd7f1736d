#pragma once
// A C++ file compiled by $CXX or c++ and loaded into this process.
#include <string>
#include <vector>

namespace warptune {

/// Checks that C++ text compiles with $CXX or c++, under bounds of time and memory. `name` is the file as
/// messages name it. Throws InputError where it does not compile.
void check_cpp(const std::string& text, const std::string& name, const std::vector<std::string>& options);

class SharedLibrary {
 public:
  /// The library that compile_cpp() makes. Throws InputError where it does not compile.
  SharedLibrary(const std::string& text, const std::string& name,
                const std::vector<std::string>& options = {});
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
