#pragma once
// The stages of a BPE tokenizer: added tokens are found, the text between them is normalized and split, and
// each piece is merged.
#include <string>
#include <unordered_map>
#include <vector>

#include "harness/text/added_tokens.h"
#include "harness/text/bpe.h"
#include "harness/text/pre_tokenizer.h"
#include "harness/text/token_decoder.h"
#include "harness/text/tokenizer.h"

namespace warptune {

/// The ids that SpecialTokens::add puts before and after those of a text.
struct IdsAround {
  std::vector<int> before, after;
};

class BpeTokenizer : public Tokenizer {
 public:
  struct Parts {
    std::vector<AddedToken> added;
    Normalizer normalizer;
    PreTokenizer pre_tokenizer;
    Bpe model;
    IdsAround around;
    TokenDecoder decoder;
  };
  explicit BpeTokenizer(Parts parts);

  std::vector<int> encode(std::string_view text, SpecialTokens special) const override;
  std::string bytes_of(int id) const override;
  LeadingSpace leading_space() const override { return parts_.decoder.leading_space; }
  std::optional<int> id_of(std::string_view token) const override;

 private:
  struct Token {
    std::string text;
    bool special = false;
  };
  void encode_between(std::string_view text, bool at_start, std::vector<int>& ids) const;

  Parts parts_;
  AddedTokens in_text_, in_normalized_;
  std::unordered_map<int, Token> tokens_;
};

}  // namespace warptune
