#pragma once
// The tokenizer of a checkpoint: text to token ids and back.
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace warptune {

/// Whether encode() adds what the tokenizer puts around a text, such as <s>.
enum class SpecialTokens { add, omit };

/// The blank that a tokenizer puts before a text, and takes away from the text of tokens.
enum class LeadingSpace {
  keep,
  strip_one,         // one blank
  strip_first_token  // all blanks of the first token
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// The ids of valid UTF-8. The names of special tokens in the text become these tokens.
  virtual std::vector<int> encode(std::string_view text, SpecialTokens special) const = 0;
  /// The bytes that a token adds to a text. Empty for special tokens and ids that are not in the vocabulary.
  virtual std::string bytes_of(int id) const = 0;
  virtual LeadingSpace leading_space() const = 0;
  /// The id of a token by its text in the vocabulary.
  virtual std::optional<int> id_of(std::string_view token) const = 0;
};

/// Reads tokenizer.json, else tokenizer.model (SentencePiece), of a checkpoint's folder. Throws InputError.
std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& folder);

/// The text of ids. Bytes that are not UTF-8 become U+FFFD.
std::string decode(const Tokenizer& tokenizer, std::span<const int> ids);

}  // namespace warptune
