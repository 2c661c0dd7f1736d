#pragma once
// A comparison as text: a table for people, markdown for a pull request, JSON for programs.
#include <string>

#include "harness/results/compare.h"

namespace warptune {

std::string as_text(const Comparison& comparison);
std::string as_markdown(const Comparison& comparison);
std::string as_json(const Comparison& comparison);

}  // namespace warptune
