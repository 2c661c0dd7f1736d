#include "harness/results/wisdom_check.h"

#include <fmt/format.h>

#include "harness/core/error.h"
#include "variants/table.h"

namespace warptune {

std::vector<std::string> unknown_winners(const Wisdom& wisdom) {
  std::vector<std::string> sentences;
  for (const Winner& winner : wisdom.winners()) try {
      const OpEntry& entry = find_op(winner.problem.op);
      entry.op.problem(winner.problem.dims, winner.problem.dtype);
      entry.variant(winner.variant);
    } catch (const InputError& e) {
      sentences.push_back(fmt::format("the winner of {}: {}", winner.problem.key(), e.what()));
    }
  return sentences;
}

}  // namespace warptune
