#pragma once
// Texts of the user in sentences about them.
#include <string>
#include <string_view>

namespace warptune {

/// The text, or of a long one its beginning, "..." and its length in bytes: what is quoted in an error must
/// not bury it.
std::string brief(std::string_view text);

}  // namespace warptune
