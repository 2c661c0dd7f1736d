#pragma once
// The errors that cross modules. Everything else is a std::exception with context, caught at the edges.
#include <stdexcept>

namespace warptune {

/// The user's input is wrong (file, flag, dim, checkpoint). One sentence; the program exits with 2.
struct InputError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The program ran and a check failed. One sentence; the program exits with 1.
struct CheckError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A configuration needs more than the device has (shared memory, threads, registers).
struct ResourceError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The kernel does not compile; the text is the compiler's.
struct CompileError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace warptune
