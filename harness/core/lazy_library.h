#pragma once
// Shared libraries that are loaded with the first call of one of their functions. Loading cuBLASLt takes
// 0.1 s and 200 MB, and most commands do not need it.
#include <string>

#include "harness/core/error.h"

namespace warptune {

/// A library or its function is not found: no fault of the code or the input that needs it.
struct LibraryError : TextError {
  using TextError::TextError;
};

/// The address of a function of a shared library, which stays loaded. Throws LibraryError.
void* library_function(const std::string& library, const char* function);

}  // namespace warptune
