#pragma once
// The files that make up a kernel: what its source includes, read from the text, and the kernels it declares.
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/core/variant.h"

namespace warptune {

class KernelSources;

/// A line `#include "name"` or `#include <name>`.
struct IncludeLine {
  std::string name;
  bool quoted = false;
};
/// In the order of the text. Comments and conditions are not understood: a line counts wherever it is.
std::vector<IncludeLine> includes_in(std::string_view text);

/// A source of the user with all that it includes.
struct SourceClosure {
  CustomKernel::Files files;    // of the user, the source first; names as in the includes
  CustomKernel::Files headers;  // below kernels/, which the program brings
};
/// Includes are looked up beside the file that includes (only quoted ones), then in the folders, then in the
/// program. What is in none of them, like the headers of the CUDA Toolkit, is left to the compiler. Throws
/// InputError where the source cannot be read.
SourceClosure source_closure(const std::filesystem::path& source,
                             std::span<const std::filesystem::path> folders, const KernelSources& own);

/// The names of the kernels that a text declares, templates included.
std::vector<std::string> kernels_in(std::string_view text);

/// The folders of the CUDA Toolkit's headers: of $CUDA_HOME, of $CUDA_PATH, or of the toolkit that this
/// program was built with.
std::vector<std::filesystem::path> toolkit_folders();

}  // namespace warptune
