#include "harness/core/problem_pattern.h"

#include "harness/core/text_table.h"

namespace warptune {

bool ProblemPattern::is_in(const Op* op, std::string_view key) const {
  return pattern_.is_in(key) || (op && pattern_.is_in(label_of(*op, key)));
}

bool ProblemPattern::is_in(const OpTable& ops, std::string_view key) const {
  const OpEntry* entry = ops.find_if_known(key.substr(0, key.find('[')));
  return is_in(entry ? &entry->op : nullptr, key);
}

}  // namespace warptune
