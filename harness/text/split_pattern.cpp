#include "harness/text/split_pattern.h"

#include <fmt/format.h>
#include <re2/re2.h>

#include <array>

#include "harness/core/brief.h"
#include "harness/core/error.h"
#include "harness/text/unicode.h"

namespace warptune {
namespace {

/// Rewrites an expression for RE2, or refuses what would mean something else there.
class Translation {
 public:
  Translation(std::string_view expression, const std::string& what) : in_(expression), what_(what) {}

  std::string run() {
    for (at_ = 0; at_ < in_.size(); ++at_) {
      const char c = in_[at_];
      if (c == '\\')
        escape();
      else if (in_class_)
        in_class(c);
      else
        outside(c);
    }
    return std::move(out_);
  }

 private:
  void escape() {
    if (++at_ == in_.size()) refuse("a backslash at the end");
    const char c = in_[at_];
    // What RE2 knows by the same name: classes of Unicode, control characters and quoted punctuation.
    constexpr std::string_view kSame = "pPrntfv";
    constexpr std::string_view kSpace = R"(\t-\r \x{85}\p{Z})";
    if (c == 's')
      out_ += in_class_ ? std::string(kSpace) : fmt::format("[{}]", kSpace);
    else if (c == 'S' && !in_class_)
      out_ += fmt::format("[^{}]", kSpace);
    else if (c == 'd')
      out_ += R"(\p{Nd})";
    else if (kSame.find(c) != kSame.npos ||
             (c > ' ' && c < '\x7f' && !std::isalnum(static_cast<unsigned char>(c))))
      out_.append({'\\', c});
    else
      refuse(fmt::format("'\\{}'", c));
  }
  void in_class(char c) {
    if (c == '[' || in_.substr(at_).starts_with("&&")) refuse("a class in a class");
    if (c == ']') in_class_ = false;
    out_ += c;
  }
  void outside(char c) {
    if (c == '^' || c == '$') refuse(fmt::format("'{}'", c));
    const std::string_view rest = in_.substr(at_);
    if (rest.starts_with("(?") && !rest.starts_with("(?:") && !rest.starts_with("(?i:"))
      refuse("look-around, except for '|\\s+(?!\\S)|\\s+' at the end,");
    if (c == '(' && !rest.starts_with("(?")) {
      out_ += "(?:";
      return;
    }
    if ((c == '+' || c == '?') && rest.size() > 1 && rest[1] == '+') refuse("a possessive quantifier");
    out_ += c;
    if (c != '[') return;
    in_class_ = true;
    if (at_ + 1 < in_.size() && in_[at_ + 1] == '^') out_ += in_[++at_];
  }
  [[noreturn]] void refuse(const std::string& part) const {
    throw InputError(fmt::format("{} is '{}'; {} cannot be matched", what_, brief(in_), part));
  }

  std::string_view in_;
  const std::string& what_;
  std::string out_;
  std::size_t at_ = 0;
  bool in_class_ = false;
};

}  // namespace

SplitPattern::SplitPattern(std::string_view expression, const std::string& what) {
  constexpr std::string_view kLast = R"(|\s+(?!\S)|\s+)";
  constexpr std::size_t kMaxBytes = 2000;
  if (expression.size() > kMaxBytes)
    throw InputError(
        fmt::format("{} has {} bytes; at most {} are possible", what, expression.size(), kMaxBytes));
  leaves_last_space_ = expression.ends_with(kLast);
  if (leaves_last_space_) expression.remove_suffix(kLast.size());
  std::string text = Translation(expression, what).run();
  if (leaves_last_space_) text = fmt::format("({})|({})", text, Translation(R"(\s+)", what).run());
  re2::RE2::Options options;
  options.set_log_errors(false);
  expression_ = std::make_unique<re2::RE2>(text, options);
  if (!expression_->ok())
    throw InputError(fmt::format("{} is '{}', which is not a regular expression: {}", what, brief(expression),
                                 brief(expression_->error())));
}

SplitPattern::~SplitPattern() = default;
SplitPattern::SplitPattern(SplitPattern&&) noexcept = default;
SplitPattern& SplitPattern::operator=(SplitPattern&&) noexcept = default;

std::vector<std::string_view> SplitPattern::split(std::string_view text) const {
  std::vector<std::string_view> parts;
  const re2::StringPiece whole(text.data(), text.size());
  std::array<re2::StringPiece, 3> groups;
  std::size_t done = 0;
  for (std::size_t at = 0; at < text.size();) {
    if (!expression_->Match(whole, at, text.size(), re2::RE2::UNANCHORED, groups.data(),
                            leaves_last_space_ ? 3 : 1))
      break;
    const auto begin = static_cast<std::size_t>(groups[0].data() - text.data());
    std::size_t end = begin + groups[0].size();
    if (begin == end) {  // an empty match is none
      at = begin == text.size() ? begin : begin + utf8_head(text.substr(begin)).bytes;
      continue;
    }
    // `\s+(?!\S)`: whitespace before a text gives its last character to what follows, if it has others.
    if (leaves_last_space_ && groups[2].data() != nullptr && end < text.size())
      if (const std::size_t last = last_character_bytes(text.substr(begin, end - begin)); end - begin > last)
        end -= last;
    if (done < begin) parts.push_back(text.substr(done, begin - done));
    parts.push_back(text.substr(begin, end - begin));
    at = done = end;
  }
  if (done < text.size()) parts.push_back(text.substr(done));
  return parts;
}

}  // namespace warptune
