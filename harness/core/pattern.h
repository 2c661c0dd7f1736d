#pragma once
// Regular expressions that the user gives, matched in linear time (RE2).
#include <memory>
#include <string>
#include <string_view>

#include "harness/core/op_table.h"

namespace re2 {
class RE2;
}

namespace warptune {

class Pattern {
 public:
  /// Throws InputError where the text is not a regular expression of RE2, which has no back-references and no
  /// look-around, or takes too much memory. `what` names the text in that message: "--filter".
  Pattern(const std::string& text, std::string_view what);
  ~Pattern();
  Pattern(Pattern&&) noexcept;
  Pattern& operator=(Pattern&&) noexcept;

  /// Whether it matches the complete text.
  bool matches(std::string_view text) const;
  /// Whether it matches a part of the text.
  bool is_in(std::string_view text) const;

 private:
  std::unique_ptr<re2::RE2> expression_;
};

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
