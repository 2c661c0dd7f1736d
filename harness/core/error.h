#pragma once
// The errors that cross modules. Everything else is a std::exception with context, caught at the edges.
#include <fmt/core.h>

#include <stdexcept>
#include <utility>

namespace warptune {

/// An error with a text, or with a format and the values in it. Thrown itself, it is the program's or the
/// machine's.
struct TextError : std::runtime_error {
  using std::runtime_error::runtime_error;
  template <class... T>
  requires(sizeof...(T) > 0) explicit TextError(fmt::format_string<T...> format, T&&... values)
      : std::runtime_error(fmt::format(format, std::forward<T>(values)...)) {}
};

/// The user's input is wrong (file, flag, dim, checkpoint). One sentence; the program exits with 2.
struct InputError : TextError {
  using TextError::TextError;
};
/// The program ran and a check failed. One sentence; the program exits with 1.
struct CheckError : TextError {
  using TextError::TextError;
};
/// A configuration needs more than the device has (shared memory, threads, registers).
struct ResourceError : TextError {
  using TextError::TextError;
};
/// The kernel does not compile; the text is the compiler's.
struct CompileError : TextError {
  using TextError::TextError;
};

}  // namespace warptune
