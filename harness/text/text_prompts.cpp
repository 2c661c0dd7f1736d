// Prompts that are text.
#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <string_view>

#include "harness/core/error.h"
#include "harness/core/input_file.h"
#include "harness/text/text_process.h"

namespace warptune {
namespace {

/// The bytes of the UTF-8 character that a text begins with; 0 where it begins with none.
std::size_t character_bytes(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first < 0xc2 || first > 0xf4) return 0;
  const std::size_t count = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  if (text.size() < count) return 0;
  for (std::size_t i = 1; i < count; ++i)
    if ((byte(i) & 0xc0u) != 0x80) return 0;
  // Overlong forms, surrogates, and what is above U+10FFFF.
  const unsigned second = byte(1);
  const bool is_wrong = (first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
                        (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f);
  return is_wrong ? 0 : count;
}

/// The bytes before the first that is not UTF-8.
std::size_t valid_utf8_bytes(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t bytes = character_bytes(text.substr(at));
    if (bytes == 0) break;
    at += bytes;
  }
  return at;
}

}  // namespace

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
  if (prompts.empty()) throw InputError("{}: there is no prompt in it", file.string());
  return prompts;
}

void check_text(const TextPrompt& prompt) {
  if (prompt.text.empty())
    throw InputError("{}: the text is empty; it must have at least one character", prompt.origin);
  if (const std::size_t valid = valid_utf8_bytes(prompt.text); valid < prompt.text.size())
    throw InputError("{}: byte {} is 0x{:02x}; a text must be UTF-8", prompt.origin, valid + 1,
                     static_cast<unsigned char>(prompt.text[valid]));
}

void check_ids(const std::vector<int>& ids, const TextPrompt& prompt, int vocabulary) {
  if (ids.empty()) throw InputError("{}: the tokenizer makes no token of the prompt", prompt.origin);
  if (const int largest = std::ranges::max(ids); largest >= vocabulary)
    throw InputError("{}: the tokenizer makes token {} of the prompt; the vocabulary of the model has {}",
                     prompt.origin, largest, vocabulary);
}

}  // namespace warptune
