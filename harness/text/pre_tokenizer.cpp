#include "harness/text/pre_tokenizer.h"

#include "harness/text/byte_level.h"

namespace warptune {
namespace {

using Pieces = std::vector<std::string>;

/// Appends the pieces of one piece.
void apply(const SplitPattern& pattern, std::string piece, bool, Pieces& out) {
  for (const std::string_view part : pattern.split(piece)) out.emplace_back(part);
}

void apply(const Metaspace& step, std::string piece, bool first, Pieces& out) {
  piece = replace_all(piece, " ", step.marker);
  const bool prepends =
      step.prepend == Metaspace::Prepend::always || (step.prepend == Metaspace::Prepend::first && first);
  if (prepends && !piece.starts_with(step.marker)) piece.insert(0, step.marker);
  while (step.split) {
    const std::size_t next = piece.find(step.marker, 1);
    if (next == std::string::npos) break;
    out.push_back(piece.substr(0, next));
    piece.erase(0, next);
  }
  out.push_back(std::move(piece));
}

void apply(const ByteLevel& step, std::string piece, bool, Pieces& out) {
  static const SplitPattern gpt2(kGpt2Pattern, "the pattern of GPT-2");
  if (step.add_prefix_space && !piece.starts_with(' ')) piece.insert(piece.begin(), ' ');
  if (!step.use_pattern) return out.push_back(to_byte_characters(piece));
  for (const std::string_view part : gpt2.split(piece)) out.push_back(to_byte_characters(part));
}

}  // namespace

std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  for (std::size_t at = 0;;) {
    const std::size_t found = text.find(from, at);
    out += text.substr(at, found - at);
    if (found == text.npos) return out;
    out += to;
    at = found + from.size();
  }
}

std::string Normalizer::apply(std::string_view text) const {
  std::string out(text);
  for (const Step& step : steps_) {
    if (const auto* prepend = std::get_if<Prepend>(&step)) {
      if (!out.empty()) out.insert(0, prepend->text);
    } else {
      const auto& replace = std::get<Replacement>(step);
      out = replace_all(out, replace.from, replace.to);
    }
  }
  return out;
}

std::vector<std::string> PreTokenizer::split(std::string_view text, bool at_start) const {
  Pieces pieces;
  if (!text.empty()) pieces.emplace_back(text);
  for (const auto& step : steps_) {
    Pieces next;
    for (std::size_t i = 0; i < pieces.size(); ++i)
      std::visit([&](const auto& s) { apply(s, std::move(pieces[i]), at_start && i == 0, next); }, step);
    pieces = std::move(next);
  }
  return pieces;
}

}  // namespace warptune
