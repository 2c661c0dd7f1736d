#pragma once
// Whether this program knows what a wisdom speaks of.
#include <string>
#include <vector>

#include "harness/results/wisdom.h"

namespace warptune {

/// One sentence per winner whose op is none of this program's, whose dims are not those of its op, or whose
/// variant its op does not have.
std::vector<std::string> unknown_winners(const Wisdom& wisdom);

}  // namespace warptune
