#pragma once
// The kernel sources inside the program. cmake/write_embedded.cmake writes the table.

namespace warptune {

struct EmbeddedFile {
  const char* name;  // relative to kernels/
  const char* text;
};
/// Ends with a null name.
extern const EmbeddedFile kEmbeddedKernels[];

}  // namespace warptune
