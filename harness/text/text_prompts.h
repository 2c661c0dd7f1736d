#pragma once
// Prompts that are text.
#include <filesystem>
#include <string>
#include <vector>

namespace warptune {

struct TextPrompt {
  std::string text;
  std::string origin;  // "prompts.txt:3", "--prompt 1": names it in messages
};

/// One prompt per line. Throws InputError, also for an empty line.
std::vector<TextPrompt> read_text_prompts(const std::filesystem::path& file);
/// Throws InputError where the text is empty or not UTF-8.
void check_text(const TextPrompt& prompt);

/// Throws InputError where the prompt has no ids, or one that is not in the model's vocabulary.
void check_ids(const std::vector<int>& ids, const TextPrompt& prompt, int vocabulary);

}  // namespace warptune
