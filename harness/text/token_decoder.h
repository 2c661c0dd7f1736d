#pragma once
// The decoder of tokenizer.json: the bytes that a token of the vocabulary adds to a text.
#include <string>
#include <vector>

#include "harness/text/pre_tokenizer.h"
#include "harness/text/tokenizer.h"

namespace warptune {

/// The byte of a token <0x00> to <0xFF> of BPE with byte fallback, as a text of one byte; else the token.
std::string byte_of_fallback(const std::string& token);

struct TokenDecoder {
  bool byte_level = false;  // tokens are of the alphabet of byte_level.h
  bool byte_fallback = false;
  std::vector<Replacement> replacements = {};
  LeadingSpace leading_space = LeadingSpace::keep;

  std::string bytes_of(std::string token) const;
};

}  // namespace warptune
