#pragma once
// Prompts that are text.
#include <filesystem>
#include <string>
#include <vector>

#include "harness/text/tokenizer.h"

namespace warptune {

struct TextPrompt {
  std::string text;
  std::string origin;  // "prompts.txt:3", "--prompt 1": names it in messages
};

/// One prompt per line. Throws InputError, also for an empty line.
std::vector<TextPrompt> read_text_prompts(const std::filesystem::path& file);
/// Throws InputError where the text is empty or not UTF-8.
void check_text(const TextPrompt& prompt);

/// The ids of a prompt. Throws InputError where there are none, or one that is not in the model's vocabulary.
std::vector<int> encode_prompt(const Tokenizer& tokenizer, const TextPrompt& prompt, SpecialTokens special,
                               int vocabulary);

}  // namespace warptune
