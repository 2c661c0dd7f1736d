#pragma once
// Texts of the user in sentences about them.
#include <span>
#include <string>
#include <string_view>

namespace warptune {

/// The text, or of a long one its beginning, "..." and its length in bytes: what is quoted in an error must
/// not bury it.
std::string brief(std::string_view text);

/// "; did you mean 'vec'?" where a known name is close to the given one, else "".
std::string near_miss(std::string_view given, std::span<const std::string> known);

}  // namespace warptune
