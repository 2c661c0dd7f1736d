#include "harness/text/chat_template.h"

#include <fmt/format.h>

#include "harness/core/error.h"
#include "harness/text/tokenizer_config.h"
#include "harness/text/unicode.h"

namespace warptune {
namespace {

constexpr std::string_view kHeader = "<|start_header_id|>";

/// Without whitespace at both ends, as Jinja's trim.
std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_space(text.substr(0, utf8_head(text).bytes)))
    text.remove_prefix(utf8_head(text).bytes);
  while (!text.empty()) {
    const std::size_t last = last_character_bytes(text);
    if (!is_space(text.substr(text.size() - last))) break;
    text.remove_suffix(last);
  }
  return text;
}

}  // namespace

std::optional<ChatFormat> chat_format(std::string_view jinja) {
  const auto has = [&](std::string_view mark) { return jinja.find(mark) != jinja.npos; };
  if (has(kHeader)) return ChatFormat::llama3;
  if (has("[INST]")) return ChatFormat::llama2;
  if (has("<|user|>") && has("<|assistant|>")) return ChatFormat::zephyr;
  return std::nullopt;
}

std::string ChatTemplate::render(std::string_view message) const {
  switch (format) {
    case ChatFormat::llama2:
      return fmt::format("{}[INST] {} [/INST]", bos, trimmed(message));
    case ChatFormat::llama3:
      return fmt::format("{0}{1}user<|end_header_id|>\n\n{2}<|eot_id|>{1}assistant<|end_header_id|>\n\n", bos,
                         kHeader, trimmed(message));
    case ChatFormat::zephyr:
      break;
  }
  return fmt::format("<|user|>\n{}{}\n<|assistant|>\n", message, eos);
}

ChatTemplate read_chat_template(const std::filesystem::path& folder, const Tokenizer& tokenizer) {
  const TokenizerConfig config = read_tokenizer_config(folder);
  auto format = chat_format(config.chat_template);
  if (config.chat_template.empty() && tokenizer.id_of(kHeader)) format = ChatFormat::llama3;
  if (!format)
    throw InputError(
        fmt::format("the chat template of '{}' is {}; known are those of LLaMA 2 ([INST]), LLaMA 3 ({}) and "
                    "Zephyr (<|user|>)",
                    folder.string(), config.chat_template.empty() ? "missing" : "another one", kHeader));
  const bool has_bos = *format != ChatFormat::llama3 || tokenizer.id_of(config.bos);
  return {.format = *format, .bos = has_bos ? config.bos : "<|begin_of_text|>", .eos = config.eos};
}

}  // namespace warptune
