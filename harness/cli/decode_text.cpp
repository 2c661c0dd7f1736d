#include "harness/cli/decode_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/cli/standard_streams.h"
#include "harness/core/error.h"
#include "harness/core/print.h"
#include "harness/text/chat_template.h"
#include "harness/text/text_prompts.h"

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
      throw InputError(fmt::format("{} needs --prompt or --prompt-file", o.chat ? "--chat" : "--stop"));
    return std::nullopt;
  }
  if (o.model_folder.empty())
    throw InputError(
        "a prompt that is text needs --model, a checkpoint with its tokenizer; --preset has none");
  std::vector<TextPrompt> texts = texts_of(o);
  check_stops(o.stops);

  DecodeText text;
  text.tokenizer_ = load_tokenizer(o.model_folder);
  text.stops_ = o.stops;
  text.end_tokens_ = config.eos;
  if (o.chat) {
    const ChatTemplate chat = read_chat_template(o.model_folder, *text.tokenizer_);
    for (TextPrompt& prompt : texts) prompt.text = chat.render(prompt.text);
    if (const auto id = text.tokenizer_->id_of(chat.end_of_turn())) text.end_tokens_.push_back(*id);
  }
  const SpecialTokens special = o.chat ? SpecialTokens::omit : SpecialTokens::add;
  for (const TextPrompt& prompt : texts)
    text.prompts_.push_back(encode_prompt(*text.tokenizer_, prompt, special, config.vocab));
  return text;
}

void DecodeText::begin(int batch) {
  sequences_.clear();
  for (int b = 0; b < batch; ++b) sequences_.push_back({TextStream(*tokenizer_, stops_)});
}

bool DecodeText::next(std::span<const int> ids) {
  bool any_goes_on = false;
  for (std::size_t b = 0; b < sequences_.size(); ++b) {
    Sequence& sequence = sequences_[b];
    if (sequence.ended) continue;
    ++sequence.tokens;
    sequence.ended = std::ranges::find(end_tokens_, ids[b]) != end_tokens_.end();
    if (!sequence.ended) add(sequence, sequence.stream.push(ids[b]));
    sequence.ended = sequence.ended || sequence.stream.stopped();
    any_goes_on = any_goes_on || !sequence.ended;
  }
  return any_goes_on;
}

void DecodeText::end() {
  for (std::size_t b = 0; b < sequences_.size(); ++b) {
    Sequence& sequence = sequences_[b];
    add(sequence, sequence.stream.finish());
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
