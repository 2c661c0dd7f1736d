// The text side of `warptune decode`: prompts to ids, and ids to text as they arrive.
#include <fmt/format.h>

#include "cli/decode.h"
#include "cli/standard_streams.h"
#include "harness/core/error.h"
#include "harness/core/print.h"
#include "harness/llama/gguf.h"
#include "harness/text/text_process.h"

namespace warptune {
namespace {

std::vector<TextPrompt> texts_of(const DecodeOptions& o) {
  if (!o.text_file.empty()) return read_text_prompts(o.text_file);
  std::vector<TextPrompt> texts;
  for (const std::string& text : o.texts) {
    texts.push_back({text, fmt::format("--prompt {}", texts.size() + 1)});
    check_text(texts.back());
  }
  return texts;
}

void check_stops(const std::vector<std::string>& stops) {
  for (const std::string& stop : stops) check_text({stop, "--stop"});
}

}  // namespace

std::optional<DecodeText> DecodeText::open(const DecodeOptions& o, const ModelConfig& config) {
  if (o.texts.empty() && o.text_file.empty()) {
    if (o.chat || !o.stops.empty())
      throw InputError("{} needs --prompt or --prompt-file", o.chat ? "--chat" : "--stop");
    return std::nullopt;
  }
  if (o.model_folder.empty())
    throw InputError(
        "a prompt that is text needs --model, a checkpoint with its tokenizer; --preset has none");
  std::vector<TextPrompt> texts = texts_of(o);
  check_stops(o.stops);

  DecodeText text;
  text.process_ = is_gguf(o.model_folder)
                      ? std::make_unique<TextProcess>(o.model_folder, GgufFile(o.model_folder).tokenizer())
                      : std::make_unique<TextProcess>(o.model_folder);
  text.stops_ = o.stops;
  text.end_tokens_ = config.eos;
  text.chat_ = o.chat;
  std::vector<std::string> lines;
  for (const TextPrompt& prompt : texts) lines.push_back(prompt.text);
  text.prompts_ = text.process_->encode(lines, o.chat);
  for (std::size_t i = 0; i < texts.size(); ++i) check_ids(text.prompts_[i], texts[i], config.vocab);
  return text;
}

void DecodeText::begin(int batch) {
  sequences_.assign(static_cast<std::size_t>(batch), {});
  process_->begin(batch, stops_, end_tokens_, chat_);
}

bool DecodeText::next(std::vector<std::span<const int>> tokens) {
  for (std::size_t b = 0; b < sequences_.size(); ++b)
    if (sequences_[b].ended) tokens[b] = {};
  const std::vector<TextPiece> pieces = process_->push(tokens);
  bool any_goes_on = false;
  for (std::size_t b = 0; b < sequences_.size(); ++b) {
    Sequence& sequence = sequences_[b];
    sequence.tokens += pieces[b].tokens;
    sequence.ended = pieces[b].ended;
    add(sequence, pieces[b].text);
    any_goes_on = any_goes_on || !sequence.ended;
  }
  return any_goes_on;
}

void DecodeText::end() {
  const std::vector<std::string> rest = process_->finish(sequences_.size());
  for (std::size_t b = 0; b < sequences_.size(); ++b) {
    Sequence& sequence = sequences_[b];
    add(sequence, rest[b]);
    if (sequences_.size() > 1)
      print("sequence {}: {} tokens: {}\n", b, sequence.tokens, Lines{sequence.text});
    else
      print("\n");
  }
}

/// One sequence is printed as it arrives; the texts of several would mix.
void DecodeText::add(Sequence& sequence, const std::string& text) const {
  if (sequences_.size() > 1) {
    sequence.text += text;
    return;
  }
  print("{}", Lines{text});
  flush_stdout();
}

}  // namespace warptune
