#include "harness/core/pattern.h"

#include <re2/re2.h>

#include "harness/core/brief.h"
#include "harness/core/error.h"
#include "harness/core/text_table.h"

namespace warptune {

Pattern::Pattern(const std::string& text, std::string_view what) {
  constexpr std::size_t kMaxBytes = 1000;
  if (text.size() > kMaxBytes)
    throw InputError("{} '{}' is too long for a regular expression; at most {} bytes are possible", what,
                     brief(text), kMaxBytes);
  re2::RE2::Options options;
  options.set_log_errors(false);
  expression_ = std::make_unique<re2::RE2>(text, options);
  if (!expression_->ok())
    throw InputError("{} '{}' is not a regular expression: {}", what, brief(text),
                     brief(expression_->error()));
}

Pattern::~Pattern() = default;
Pattern::Pattern(Pattern&&) noexcept = default;
Pattern& Pattern::operator=(Pattern&&) noexcept = default;

bool Pattern::matches(std::string_view text) const {
  return re2::RE2::FullMatch(re2::StringPiece(text.data(), text.size()), *expression_);
}

bool Pattern::is_in(std::string_view text) const {
  return re2::RE2::PartialMatch(re2::StringPiece(text.data(), text.size()), *expression_);
}

bool ProblemPattern::is_in(const Op* op, std::string_view key) const {
  return pattern_.is_in(key) || (op && pattern_.is_in(label_of(*op, key)));
}

bool ProblemPattern::is_in(const OpTable& ops, std::string_view key) const {
  const OpEntry* entry = ops.find_if_known(key.substr(0, key.find('[')));
  return is_in(entry ? &entry->op : nullptr, key);
}

}  // namespace warptune
