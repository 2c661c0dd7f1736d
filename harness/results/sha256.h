#pragma once
// SHA-256 of a text: the names of objects in a shared wisdom folder, the hash of a wisdom in use, the scripts
// that a page allows.
#include <string>
#include <string_view>

namespace warptune {

/// 64 lower-case hex digits.
std::string sha256(std::string_view text);
/// The same digest in base64, as in a Content-Security-Policy.
std::string sha256_base64(std::string_view text);

}  // namespace warptune
