#pragma once
// The files that make up a kernel: what its source includes, and the kernels that it declares.
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/core/variant.h"

namespace warptune {

class KernelSources;

/// A line `#include "name"` or `#include <name>`, or `#include NAME` with a macro, whose name is then empty.
struct IncludeLine {
  std::string name;
  bool quoted = false;
};
/// In the order of the text. Comments and conditions are not understood: a line counts wherever it is.
std::vector<IncludeLine> includes_in(std::string_view text);

/// Where the compiler looks for includes after the folder of the file that includes, in this order.
struct SearchPath {
  std::vector<std::filesystem::path>
      user;  // the folder of the source, then folders that its definition names
  std::vector<std::filesystem::path> toolkit;

  /// The options -I of the compiler, and the path that they say.
  std::vector<std::string> options() const;
  static SearchPath of(std::span<const std::string> options);
  /// Whether a path that the compiler names is a file of the user: not the toolkit's, not brought by the
  /// program.
  bool is_of_user(const std::string& path) const;
  /// The name of a file of the user: relative to the first folder that holds it, so that a hash of the
  /// sources does not depend on where they are.
  std::string name_of(const std::string& path) const;
};

/// A source of the user with all that it includes.
struct SourceClosure {
  /// The files of the user, the source first; names as name_of() gives them. Where one has __has_include, the
  /// last is the text "preprocessed".
  CustomKernel::Files files;
  CustomKernel::Files headers;  // below kernels/, which the program brings
};
/// What the compiler includes under the first set of its options and, where an include is a macro, under the
/// others; and, whatever the conditions, what lines `#include "name"` name. Headers of the CUDA Toolkit are
/// left out. Throws InputError where the source cannot be read, or an include is a pipe or a device.
SourceClosure source_closure(const std::filesystem::path& source, const SearchPath& folders,
                             const KernelSources& own, std::span<const std::vector<std::string>> option_sets);

/// A source as the compiler takes it: under its path, so that it finds the files beside it and profilers find
/// the source; then the headers that the program brings. A file of the user hides a header of its name.
CustomKernel::Files program_of(const std::filesystem::path& source, std::string text,
                               const SearchPath& folders, const KernelSources& own);

/// Whether a text has __has_include: its code then depends on files that no list of includes tells.
bool asks_for_files(std::string text);

/// The text of a source. Throws InputError where it cannot be read.
std::string read_source_file(const std::filesystem::path& path);

/// The names of the kernels that a text declares, templates included.
std::vector<std::string> kernels_in(std::string_view text);

/// The folders of the CUDA Toolkit's headers: of $CUDA_HOME, of $CUDA_PATH, or of the toolkit that this
/// program was built with.
std::vector<std::filesystem::path> toolkit_folders();

}  // namespace warptune
