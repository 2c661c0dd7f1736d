#pragma once
// Regular expressions over the keys of problems: --problem, --filter.
#include <string>
#include <string_view>

#include "harness/core/op_table.h"
#include "harness/core/pattern.h"

namespace warptune {

/// Finds a problem by its key, as files hold it, and by its label, the key without dims at their defaults, as
/// tables print it.
class ProblemPattern {
 public:
  /// Throws InputError as Pattern does. `what` names the text in messages.
  explicit ProblemPattern(const std::string& text, std::string_view what = "--problem")
      : pattern_(text, what) {}

  /// Whether it matches a part of the key or of the label. `op`: that of the key; null if it is not known,
  /// and then only the key counts.
  bool is_in(const Op* op, std::string_view key) const;
  bool is_in(const OpTable& ops, std::string_view key) const;

 private:
  Pattern pattern_;
};

}  // namespace warptune
