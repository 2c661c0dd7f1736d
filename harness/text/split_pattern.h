#pragma once
// The regular expression of a pre-tokenizer. tokenizer.json writes it for Oniguruma; it is matched by RE2,
// whose \s and \d are ASCII and which has no look-ahead.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace re2 {
class RE2;
}

namespace warptune {

/// Of GPT-2, which the pre-tokenizer ByteLevel splits by.
inline constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

class SplitPattern {
 public:
  /// Throws InputError that begins with `what` for an expression that cannot be matched here. Look-ahead is
  /// possible in one place: the alternatives `|\s+(?!\S)|\s+` at the end.
  SplitPattern(std::string_view expression, const std::string& what);
  ~SplitPattern();
  SplitPattern(SplitPattern&&) noexcept;
  SplitPattern& operator=(SplitPattern&&) noexcept;

  /// The matches and the texts between them, in order; none is empty.
  std::vector<std::string_view> split(std::string_view text) const;

 private:
  std::unique_ptr<re2::RE2> expression_;
  bool leaves_last_space_ = false;  // whether it ends as above; the second group is then the whitespace
};

}  // namespace warptune
