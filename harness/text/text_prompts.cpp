#include "harness/text/text_prompts.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "harness/core/error.h"
#include "harness/core/input_file.h"
#include "harness/text/unicode.h"

namespace warptune {

std::vector<TextPrompt> read_text_prompts(const std::filesystem::path& file) {
  std::istringstream in(
      read_input(file, fmt::format("the prompt file '{}'", file.string()), kMaxPromptBytes));
  std::vector<TextPrompt> prompts;
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    if (line.ends_with('\r')) line.pop_back();
    prompts.push_back({line, fmt::format("{}:{}", file.string(), number)});
    check_text(prompts.back());
  }
  if (prompts.empty()) throw InputError(fmt::format("{}: there is no prompt in it", file.string()));
  return prompts;
}

void check_text(const TextPrompt& prompt) {
  if (prompt.text.empty())
    throw InputError(
        fmt::format("{}: the text is empty; it must have at least one character", prompt.origin));
  if (const std::size_t valid = valid_utf8_bytes(prompt.text); valid < prompt.text.size())
    throw InputError(fmt::format("{}: byte {} is 0x{:02x}; a text must be UTF-8", prompt.origin, valid + 1,
                                 static_cast<unsigned char>(prompt.text[valid])));
}

std::vector<int> encode_prompt(const Tokenizer& tokenizer, const TextPrompt& prompt, SpecialTokens special,
                               int vocabulary) {
  std::vector<int> ids = tokenizer.encode(prompt.text, special);
  if (ids.empty())
    throw InputError(fmt::format("{}: the tokenizer makes no token of the prompt", prompt.origin));
  if (const int largest = std::ranges::max(ids); largest >= vocabulary)
    throw InputError(
        fmt::format("{}: the tokenizer makes token {} of the prompt; the vocabulary of the model has {}",
                    prompt.origin, largest, vocabulary));
  return ids;
}

}  // namespace warptune
