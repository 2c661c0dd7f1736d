#pragma once
// Regular expressions that the user gives.
#include <regex>
#include <string>
#include <string_view>

namespace warptune {

/// Throws InputError where it is none, or longer than std::regex, which recurses, can take. `what`: what the
/// user knows it as, for that sentence: "--filter".
std::regex pattern_of(const std::string& text, std::string_view what);

}  // namespace warptune
