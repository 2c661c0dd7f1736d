#pragma once
// The chat templates of LLaMA 2, LLaMA 3 and Zephyr (TinyLlama) around one message of a user. Checkpoints
// write them in Jinja, of which only the format is recognized.
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "harness/text/tokenizer.h"

namespace warptune {

enum class ChatFormat { llama2, llama3, zephyr };

/// By the marks that only this format has; empty: another one.
std::optional<ChatFormat> chat_format(std::string_view jinja);

struct ChatTemplate {
  ChatFormat format;
  std::string bos, eos;  // the texts of these tokens

  /// The prompt up to the answer. It has all special tokens: encode it with SpecialTokens::omit.
  std::string render(std::string_view message) const;
  /// The token that ends an answer.
  std::string end_of_turn() const { return format == ChatFormat::llama3 ? "<|eot_id|>" : eos; }
};

/// The template of a checkpoint's folder; where it has none, LLaMA 3's if the tokenizer has its special
/// tokens. Throws InputError.
ChatTemplate read_chat_template(const std::filesystem::path& folder, const Tokenizer& tokenizer);

}  // namespace warptune
