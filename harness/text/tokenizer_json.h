#pragma once
// tokenizer.json of the `tokenizers` library: byte-level BPE as LLaMA 3 has it, and BPE with byte fallback as
// LLaMA 2 and TinyLlama have it.
#include <memory>
#include <string>
#include <string_view>

#include "harness/text/tokenizer.h"

namespace warptune {

/// Throws InputError that begins with `origin`, also for parts that a LLaMA's tokenizer does not have. The
/// keys `truncation` and `padding` are for training and are not read.
std::unique_ptr<Tokenizer> parse_tokenizer_json(std::string_view text, const std::string& origin);

}  // namespace warptune
