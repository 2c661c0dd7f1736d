#include "harness/text/sentencepiece_model.h"

#include <fmt/format.h>

#include "harness/core/error.h"

#ifdef WARPTUNE_HAS_SENTENCEPIECE
#include <sentencepiece_processor.h>

#include "harness/core/brief.h"
#include "harness/text/added_tokens.h"
#include "harness/text/pre_tokenizer.h"
#include "harness/text/token_decoder.h"
#include "harness/text/unicode.h"
#endif

namespace warptune {

#ifdef WARPTUNE_HAS_SENTENCEPIECE
namespace {

using sentencepiece::SentencePieceProcessor;

class SentencePieceTokenizer : public Tokenizer {
 public:
  SentencePieceTokenizer(std::unique_ptr<SentencePieceProcessor> processor, AddedEnds ends);
  std::vector<int> encode(std::string_view text, SpecialTokens special) const override;
  std::string bytes_of(int id) const override;
  LeadingSpace leading_space() const override { return leading_; }
  std::optional<int> id_of(std::string_view token) const override;

 private:
  LeadingSpace find_leading_space() const;

  std::unique_ptr<SentencePieceProcessor> processor_;
  AddedEnds ends_;
  AddedTokens controls_;  // the library itself does not find <s> in a text
  LeadingSpace leading_;
};

SentencePieceTokenizer::SentencePieceTokenizer(std::unique_ptr<SentencePieceProcessor> processor,
                                               AddedEnds ends)
    : processor_(std::move(processor)), ends_(ends), leading_(find_leading_space()) {
  std::vector<AddedToken> controls;
  for (int id = 0; id < processor_->GetPieceSize(); ++id)
    if (processor_->IsControl(id) || processor_->IsUnknown(id))
      controls.push_back({.id = id, .text = processor_->IdToPiece(id)});
  controls_ = AddedTokens(std::move(controls));
}

/// A model that puts a blank before each text takes one away from the text of its pieces.
LeadingSpace SentencePieceTokenizer::find_leading_space() const {
  for (int id = 0; id < processor_->GetPieceSize(); ++id) {
    const std::string& piece = processor_->IdToPiece(id);
    if (!piece.starts_with(kSpaceMarker)) continue;
    std::string text;
    if (!processor_->Decode(std::vector<int>{id}, &text).ok()) break;
    return text == replace_all(piece, kSpaceMarker, " ") ? LeadingSpace::keep : LeadingSpace::strip_one;
  }
  return LeadingSpace::keep;
}

std::vector<int> SentencePieceTokenizer::encode(std::string_view text, SpecialTokens special) const {
  const bool adds = special == SpecialTokens::add;
  std::vector<int> ids;
  if (adds && ends_.bos && processor_->bos_id() >= 0) ids.push_back(processor_->bos_id());
  for (const Segment& part : controls_.split(text)) {
    if (part.token) {
      ids.push_back(*part.token);
      continue;
    }
    std::vector<int> inner;
    if (const auto status = processor_->Encode(part.text, &inner); !status.ok())
      throw InputError(fmt::format("SentencePiece cannot encode the text: {}", brief(status.ToString())));
    ids.insert(ids.end(), inner.begin(), inner.end());
  }
  if (adds && ends_.eos && processor_->eos_id() >= 0) ids.push_back(processor_->eos_id());
  return ids;
}

std::string SentencePieceTokenizer::bytes_of(int id) const {
  if (id < 0 || id >= processor_->GetPieceSize() || processor_->IsControl(id)) return "";
  const std::string& piece = processor_->IdToPiece(id);
  if (processor_->IsByte(id)) return byte_of_fallback(piece);
  if (processor_->IsUnknown(id)) return " \xe2\x81\x87 ";  // U+2047, as the library decodes it
  return replace_all(piece, kSpaceMarker, " ");
}

std::optional<int> SentencePieceTokenizer::id_of(std::string_view token) const {
  const int id = processor_->PieceToId(token);
  return processor_->IdToPiece(id) == token ? std::optional(id) : std::nullopt;
}

}  // namespace

std::unique_ptr<Tokenizer> parse_sentencepiece_model(const std::string& bytes, const std::string& origin,
                                                     AddedEnds ends) {
  auto processor = std::make_unique<SentencePieceProcessor>();
  if (const auto status = processor->LoadFromSerializedProto(bytes); !status.ok())
    throw InputError(
        fmt::format("{}: this is not a model of SentencePiece: {}", origin, brief(status.ToString())));
  return std::make_unique<SentencePieceTokenizer>(std::move(processor), ends);
}

#else

std::unique_ptr<Tokenizer> parse_sentencepiece_model(const std::string&, const std::string& origin,
                                                     AddedEnds) {
  throw InputError(fmt::format(
      "{} cannot be read: this program was built without SentencePiece (libsentencepiece-dev)", origin));
}

#endif

}  // namespace warptune
