#pragma once
// Byte-pair encoding: a piece of text begins as characters, and the pair of neighbors whose merge has the
// lowest rank is merged until none is left. Follows the `tokenizers` library, ties and unknown characters
// included.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace warptune {

struct StringHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};
using Vocabulary = std::unordered_map<std::string, int, StringHash, std::equal_to<>>;

struct BpeOptions {
  std::optional<int> unknown = {};  // id of a character that the vocabulary lacks; else it is dropped
  bool fuse_unknown = false;        // neighboring unknown characters are one token
  bool byte_fallback = false;       // an unknown character is its bytes: <0xE2> <0x82> <0xAC>
  bool ignore_merges = false;       // a piece that is in the vocabulary is one token
};

class Bpe {
 public:
  Bpe(Vocabulary vocabulary, BpeOptions options);

  /// Adds the merge of the next rank. False where a part or the merged token is not in the vocabulary.
  bool add_merge(std::string_view left, std::string_view right);
  /// Appends the ids of a piece of valid UTF-8.
  void encode(std::string_view piece, std::vector<int>& ids) const;
  std::optional<int> id_of(std::string_view token) const;
  const Vocabulary& vocabulary() const { return vocabulary_; }

 private:
  struct Merge {
    int rank, id;
  };
  std::vector<int> characters(std::string_view piece) const;
  const Merge* merge_of(int left, int right) const;

  Vocabulary vocabulary_;
  BpeOptions options_;
  int next_rank_ = 0;
  std::vector<int> byte_ids_;                        // of <0x00> to <0xFF>; -1 where it is missing
  std::unordered_map<std::uint64_t, Merge> merges_;  // by the ids of the pair
};

}  // namespace warptune
