#pragma once
// tokenizer.model of SentencePiece, read by its library.
#include <memory>
#include <string>

#include "harness/text/tokenizer.h"

namespace warptune {

/// What encode() adds around a text: tokenizer.model does not say.
struct AddedEnds {
  bool bos = true, eos = false;
};

/// Throws InputError that begins with `origin`; in a build without the library, always.
std::unique_ptr<Tokenizer> parse_sentencepiece_model(const std::string& bytes, const std::string& origin,
                                                     AddedEnds ends);

}  // namespace warptune
