#pragma once
// The text side of `warptune decode`: prompts to ids, and ids to text as they arrive.
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/decode_options.h"
#include "harness/llama/model_config.h"
#include "harness/text/text_process.h"

namespace warptune {

class DecodeText {
 public:
  /// Empty without --prompt and --prompt-file. Throws InputError for a prompt that cannot be used.
  static std::optional<DecodeText> open(const DecodeOptions& options, const ModelConfig& config);

  /// The ids of the prompts.
  const std::vector<std::vector<int>>& prompts() const { return prompts_; }
  void begin(int batch);
  /// Takes the next tokens of each sequence, and prints the text of one sequence as it arrives. Returns
  /// whether any sequence goes on: it has met neither an end token nor a stop string.
  bool next(std::vector<std::span<const int>> tokens);
  /// Prints what is left: the end of one sequence, or the texts of several.
  void end();

 private:
  struct Sequence {
    std::string text = {};
    int tokens = 0;
    bool ended = false;
  };
  DecodeText() = default;
  void add(Sequence& sequence, const std::string& text) const;

  std::unique_ptr<TextProcess> process_;
  std::vector<std::vector<int>> prompts_;
  std::vector<std::string> stops_;
  std::vector<int> end_tokens_;
  bool chat_ = false;
  std::vector<Sequence> sequences_;
};

}  // namespace warptune
