#include "harness/text/text_stream.h"

#include <algorithm>

#include "harness/text/unicode.h"

namespace warptune {
namespace {

/// Moves the complete characters from the front of `bytes` to a text. Where no character can come of the
/// bytes, each longest beginning of one is U+FFFD, as Unicode recommends; `last`: so is what is incomplete.
std::string take_characters(std::string& bytes, bool last) {
  std::string text;
  std::size_t at = 0;
  while (at < bytes.size()) {
    const Utf8Head head = utf8_head(std::string_view(bytes).substr(at));
    if (head.kind == Utf8Head::Kind::incomplete && !last) break;
    if (head.kind == Utf8Head::Kind::character)
      text.append(bytes, at, head.bytes);
    else
      text += kReplacementCharacter;
    at += head.bytes;
  }
  bytes.erase(0, at);
  return text;
}

/// The bytes at the end of a text that are the beginning of a stop string.
std::size_t begun_stop(std::string_view text, std::string_view stop) {
  for (std::size_t size = std::min(text.size(), stop.size() - 1); size > 0; --size)
    if (text.ends_with(stop.substr(0, size))) return size;
  return 0;
}

}  // namespace

TextStream::TextStream(const Tokenizer& tokenizer, std::vector<std::string> stops)
    : tokenizer_(tokenizer), stops_(std::move(stops)) {}

std::string TextStream::push(int id) {
  if (stopped_) return "";
  std::string bytes = tokenizer_.bytes_of(id);
  strip_leading(bytes);
  bytes_ += bytes;
  return release(take_characters(bytes_, false), false);
}

std::string TextStream::finish() {
  if (stopped_) return "";
  return release(take_characters(bytes_, true), true);
}

void TextStream::strip_leading(std::string& bytes) {
  if (begun_ || bytes.empty()) return;
  begun_ = true;
  const LeadingSpace rule = tokenizer_.leading_space();
  if (rule == LeadingSpace::strip_one && bytes.starts_with(' ')) bytes.erase(0, 1);
  if (rule == LeadingSpace::strip_first_token) std::erase(bytes, ' ');
}

std::string TextStream::release(std::string text, bool last) {
  text_ += text;
  std::size_t end = std::string::npos;
  for (const std::string& stop : stops_) end = std::min(end, text_.find(stop));
  stopped_ = end != std::string::npos;
  if (!stopped_) {
    std::size_t held = 0;
    if (!last)
      for (const std::string& stop : stops_) held = std::max(held, begun_stop(text_, stop));
    end = text_.size() - held;
  }
  std::string certain = text_.substr(0, end);
  text_.erase(0, end);
  return certain;
}

}  // namespace warptune
