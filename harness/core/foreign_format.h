#pragma once
// Files that are not what their names say: what a download or an editor leaves.
#include <string_view>

namespace warptune {

/// What a file is that should hold JSON or binary data, by its first bytes: "a Git LFS pointer; ..", "UTF-16;
/// ..", "HTML or XML". Empty where it is none of these.
std::string_view foreign_format(std::string_view bytes);

}  // namespace warptune
