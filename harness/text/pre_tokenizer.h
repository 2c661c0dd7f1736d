#pragma once
// What happens to a text before BPE: it is normalized, then split into pieces that no token crosses.
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "harness/text/split_pattern.h"

namespace warptune {

struct Replacement {
  std::string from, to;  // `from` is not empty
};
std::string replace_all(std::string_view text, std::string_view from, std::string_view to);

/// The normalizers Prepend and Replace, in order.
class Normalizer {
 public:
  struct Prepend {
    std::string text;
  };
  using Step = std::variant<Prepend, Replacement>;

  void add(Step step) { steps_.push_back(std::move(step)); }
  /// An empty text stays empty.
  std::string apply(std::string_view text) const;

 private:
  std::vector<Step> steps_;
};

/// Blanks become a marker, and a text begins with one (SentencePiece).
struct Metaspace {
  enum class Prepend { always, first, never };  // first: only at the beginning of the prompt
  std::string marker;
  Prepend prepend = Prepend::always;
  bool split = true;  // before each marker
};

/// Bytes become characters of byte_level.h.
struct ByteLevel {
  bool add_prefix_space = false;
  bool use_pattern = true;  // splits by kGpt2Pattern
};

class PreTokenizer {
 public:
  void add(SplitPattern pattern) { steps_.emplace_back(std::move(pattern)); }
  void add(Metaspace step) { steps_.emplace_back(std::move(step)); }
  void add(ByteLevel step) { steps_.emplace_back(step); }

  /// The pieces of a text; `at_start`: it is the beginning of the prompt.
  std::vector<std::string> split(std::string_view text, bool at_start) const;

 private:
  std::vector<std::variant<SplitPattern, Metaspace, ByteLevel>> steps_;
};

}  // namespace warptune
