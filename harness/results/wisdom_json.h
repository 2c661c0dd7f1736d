#pragma once
// The text of wisdom: JSON with one line per winner and per step.
#include <string>
#include <string_view>

#include "harness/results/wisdom.h"

namespace warptune {

/// The wisdom in a text that Wisdom::to_json() wrote. Throws InputError that begins with `origin`, which
/// names the file.
Wisdom parse_wisdom(std::string_view text, const std::string& origin);

/// A winner with its provenance as one line: equal winners have equal lines.
std::string record_of(const Winner& winner);
std::string record_of(const StepWinner& winner);

}  // namespace warptune
