#pragma once
// Tokens that are found in a text before it is tokenized: special ones as <s>, and others that were added to
// a vocabulary.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace warptune {

struct AddedToken {
  int id = 0;
  std::string text;
  bool special = false;                 // not a part of decoded text
  bool normalized = false;              // found in normalized text
  bool single_word = false;             // only where no word goes on before or after it
  bool lstrip = false, rstrip = false;  // takes the whitespace before, after it
};

/// A part of a text: an added token, or text between them.
struct Segment {
  std::string_view text;
  std::optional<int> token = {};
};

class AddedTokens {
 public:
  AddedTokens() = default;
  explicit AddedTokens(std::vector<AddedToken> tokens);

  /// Splits at the leftmost token, the longest of those that begin there. Views into `text`, none empty.
  std::vector<Segment> split(std::string_view text) const;

 private:
  const AddedToken* longest_at(std::string_view text) const;
  std::vector<std::vector<AddedToken>> by_first_byte_;  // longest first
};

}  // namespace warptune
