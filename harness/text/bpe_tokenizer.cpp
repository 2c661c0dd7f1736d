#include "harness/text/bpe_tokenizer.h"

namespace warptune {

BpeTokenizer::BpeTokenizer(Parts parts) : parts_(std::move(parts)) {
  for (const auto& [text, id] : parts_.model.vocabulary()) tokens_[id] = {text};
  std::vector<AddedToken> plain, normalized;
  for (AddedToken token : parts_.added) {
    if (token.normalized) token.text = parts_.normalizer.apply(token.text);
    tokens_[token.id] = {token.text, token.special};
    (token.normalized ? normalized : plain).push_back(std::move(token));
  }
  in_text_ = AddedTokens(std::move(plain));
  in_normalized_ = AddedTokens(std::move(normalized));
}

std::vector<int> BpeTokenizer::encode(std::string_view text, SpecialTokens special) const {
  const bool adds = special == SpecialTokens::add;
  std::vector<int> ids = adds ? parts_.around.before : std::vector<int>();
  for (const Segment& segment : in_text_.split(text)) {
    if (segment.token)
      ids.push_back(*segment.token);
    else
      encode_between(segment.text, segment.text.data() == text.data(), ids);
  }
  if (adds) ids.insert(ids.end(), parts_.around.after.begin(), parts_.around.after.end());
  return ids;
}

/// Appends the ids of a text without special tokens. Other added tokens are found in its normalized form.
void BpeTokenizer::encode_between(std::string_view text, bool at_start, std::vector<int>& ids) const {
  const std::string normal = parts_.normalizer.apply(text);
  for (const Segment& segment : in_normalized_.split(normal)) {
    if (segment.token) {
      ids.push_back(*segment.token);
      continue;
    }
    const bool first = at_start && segment.text.data() == normal.data();
    for (const std::string& piece : parts_.pre_tokenizer.split(segment.text, first))
      parts_.model.encode(piece, ids);
  }
}

std::string BpeTokenizer::bytes_of(int id) const {
  const auto found = tokens_.find(id);
  return found == tokens_.end() || found->second.special ? "" : parts_.decoder.bytes_of(found->second.text);
}

std::optional<int> BpeTokenizer::id_of(std::string_view token) const {
  for (const AddedToken& added : parts_.added)
    if (added.text == token) return added.id;
  return parts_.model.id_of(token);
}

}  // namespace warptune
