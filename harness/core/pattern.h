#pragma once
// Regular expressions that the user gives, matched in linear time (RE2).
#include <memory>
#include <string>
#include <string_view>

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

}  // namespace warptune
