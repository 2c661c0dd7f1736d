#pragma once
// Shared libraries that are loaded with the first call of one of their functions. Loading cuBLASLt takes
// 0.1 s and 200 MB, and most commands do not need it.
#include <stdexcept>
#include <string>

namespace warptune {

/// A library or its function is not found: no fault of the code or the input that needs it.
class LibraryError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The address of a function of a shared library, which stays loaded. Throws LibraryError.
void* library_function(const std::string& library, const char* function);

}  // namespace warptune
