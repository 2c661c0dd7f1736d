#pragma once
// The kernel sources inside the program; the table is written by cmake/write_embedded.cmake.

namespace warptune {

struct EmbeddedFile {
  const char* name;  // relative to kernels/
  const char* text;
};
/// Ends with a null name.
extern const EmbeddedFile kEmbeddedKernels[];

}  // namespace warptune
