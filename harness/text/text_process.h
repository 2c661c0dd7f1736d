#pragma once
// The text of a checkpoint by `python3 -m warptune.text`: prompts to ids, and ids to text as they arrive.
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "harness/core/python_process.h"

namespace warptune {

/// What tokens added to the text of a sequence.
struct TextPiece {
  std::string text;
  int tokens = 0;      // used, the end token included; those after the end are not
  bool ended = false;  // by an end token or a stop string
};

class TextProcess {
 public:
  /// Starts Python (core/python_process.h) and waits until the tokenizer of the checkpoint is loaded. An
  /// answer may take `seconds`, and longer for long prompts. Every function throws InputError, also where a
  /// Python package is missing or the process ends.
  explicit TextProcess(const std::filesystem::path& model_folder, double seconds = 60);
  /// The same for a GGUF file; `metadata`: what its GgufFile::tokenizer() returns.
  TextProcess(const std::filesystem::path& gguf, const nlohmann::json& metadata, double seconds = 60);

  /// The ids of texts in UTF-8, with special tokens; with `chat`, those of the chat template around each.
  std::vector<std::vector<int>> encode(const std::vector<std::string>& texts, bool chat);
  /// Begins the texts of a batch. With `chat` the end of a turn is an end token too.
  void begin(int sequences, const std::vector<std::string>& stops, const std::vector<int>& end_tokens,
             bool chat);
  /// The certain text of the next tokens of each sequence: UTF-8, and no beginning of a stop string.
  std::vector<TextPiece> push(const std::vector<std::span<const int>>& tokens);
  /// The text of each sequence that was held back: no token comes any more.
  std::vector<std::string> finish(std::size_t sequences);

 private:
  template <class T>
  T ask(const char* request, nlohmann::json arguments, const char* key);

  PythonProcess process_;
};

/// A prompt that is text.
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
