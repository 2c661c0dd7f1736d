#include "harness/text/added_tokens.h"

#include <algorithm>

#include "harness/text/unicode.h"

namespace warptune {
namespace {

bool is_alone(std::string_view text, std::size_t begin, std::size_t end) {
  const std::string_view before = text.substr(0, begin), after = text.substr(end);
  const bool word_before = !before.empty() && is_word(before.substr(begin - last_character_bytes(before)));
  const bool word_after = !after.empty() && is_word(after.substr(0, utf8_head(after).bytes));
  return !word_before && !word_after;
}

/// Moves `begin` before the whitespace that ends there, but not before `limit`.
std::size_t skip_space_back(std::string_view text, std::size_t begin, std::size_t limit) {
  while (begin > limit) {
    const std::size_t bytes = last_character_bytes(text.substr(0, begin));
    if (!is_space(text.substr(begin - bytes, bytes))) break;
    begin -= bytes;
  }
  return begin;
}

std::size_t skip_space(std::string_view text, std::size_t end) {
  while (end < text.size()) {
    const std::size_t bytes = utf8_head(text.substr(end)).bytes;
    if (!is_space(text.substr(end, bytes))) break;
    end += bytes;
  }
  return end;
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : by_first_byte_(256) {
  std::ranges::stable_sort(tokens, std::greater<>(), [](const AddedToken& t) { return t.text.size(); });
  for (AddedToken& token : tokens)
    if (!token.text.empty())
      by_first_byte_[static_cast<unsigned char>(token.text.front())].push_back(std::move(token));
}

const AddedToken* AddedTokens::longest_at(std::string_view text) const {
  if (by_first_byte_.empty()) return nullptr;
  const auto& candidates = by_first_byte_[static_cast<unsigned char>(text.front())];
  const auto found =
      std::ranges::find_if(candidates, [&](const AddedToken& token) { return text.starts_with(token.text); });
  return found == candidates.end() ? nullptr : &*found;
}

std::vector<Segment> AddedTokens::split(std::string_view text) const {
  std::vector<Segment> segments;
  std::size_t done = 0;  // bytes in `segments`
  for (std::size_t at = 0; at < text.size();) {
    const AddedToken* token = longest_at(text.substr(at));
    if (!token) {
      ++at;
      continue;
    }
    std::size_t begin = at, end = at + token->text.size();
    at = end;
    if (token->single_word && !is_alone(text, begin, end)) continue;
    if (token->lstrip) begin = skip_space_back(text, begin, done);
    if (token->rstrip) end = skip_space(text, end);
    begin = std::max(begin, done);
    if (done < begin) segments.push_back({text.substr(done, begin - done)});
    segments.push_back({text.substr(begin, end - begin), token->id});
    at = done = end;
  }
  if (done < text.size()) segments.push_back({text.substr(done)});
  return segments;
}

}  // namespace warptune
