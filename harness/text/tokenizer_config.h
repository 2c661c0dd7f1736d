#pragma once
// The keys of a checkpoint's tokenizer_config.json that text needs.
#include <filesystem>
#include <string>

namespace warptune {

struct TokenizerConfig {
  std::string bos = "<s>", eos = "</s>";
  bool add_bos = true, add_eos = false;
  std::string chat_template = {};  // Jinja; empty: none
};

/// Defaults where the folder has no such file. The chat template may be in a file chat_template.jinja.
TokenizerConfig read_tokenizer_config(const std::filesystem::path& folder);

}  // namespace warptune
