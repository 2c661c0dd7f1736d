#pragma once
// Text from tokens as they arrive.
#include <string>
#include <string_view>
#include <vector>

#include "harness/text/tokenizer.h"

namespace warptune {

/// Turns the tokens of one sequence into text. A character is held back until its last byte is there, and
/// what may begin a stop string until that is known. The text ends before the first stop string.
class TextStream {
 public:
  /// `tokenizer` must outlive the stream; no stop string is empty.
  TextStream(const Tokenizer& tokenizer, std::vector<std::string> stops);

  /// The text that is certain now.
  std::string push(int id);
  /// The text that was held back: no token comes any more.
  std::string finish();
  /// Whether a stop string has come; later tokens add nothing.
  bool stopped() const { return stopped_; }

 private:
  void strip_leading(std::string& bytes);
  std::string release(std::string text, bool last);

  const Tokenizer& tokenizer_;
  std::vector<std::string> stops_;
  std::string bytes_;  // of a character that is not complete
  std::string text_;   // held back, since it may begin a stop string
  bool begun_ = false, stopped_ = false;
};

}  // namespace warptune
