#pragma once
// SHA-256 of a text: the names of objects in a shared wisdom folder, and the hash of a wisdom in use.
#include <string>
#include <string_view>

namespace warptune {

/// 64 lower-case hex digits.
std::string sha256(std::string_view text);

}  // namespace warptune
