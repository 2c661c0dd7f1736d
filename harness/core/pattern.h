#pragma once
// Regular expressions that the user gives.
#include <regex>
#include <string>
#include <string_view>

namespace warptune {

/// Throws InputError where the text is not a regular expression, or is too long for std::regex, which
/// recurses. `what` names the text in that message: "--filter".
std::regex pattern_of(const std::string& text, std::string_view what);

}  // namespace warptune
