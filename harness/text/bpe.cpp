#include "harness/text/bpe.h"

#include <fmt/format.h>

#include <algorithm>
#include <queue>
#include <tuple>

#include "harness/text/unicode.h"

namespace warptune {
namespace {

std::uint64_t pair_key(int left, int right) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
         static_cast<std::uint32_t>(right);
}

/// A token of the piece in a doubly linked list; a merge keeps the left one.
struct Symbol {
  int id, before, after;
  bool merged_away = false;
};

/// A possible merge of the symbol at `at` with the next.
struct Candidate {
  int rank, at, id;
  bool operator>(const Candidate& other) const { return std::tie(rank, at) > std::tie(other.rank, other.at); }
};

}  // namespace

Bpe::Bpe(Vocabulary vocabulary, BpeOptions options) : vocabulary_(std::move(vocabulary)), options_(options) {
  for (int byte = 0; byte < 256; ++byte)
    byte_ids_.push_back(id_of(fmt::format("<0x{:02X}>", byte)).value_or(-1));
}

std::optional<int> Bpe::id_of(std::string_view token) const {
  const auto found = vocabulary_.find(token);
  return found == vocabulary_.end() ? std::nullopt : std::optional(found->second);
}

bool Bpe::add_merge(std::string_view left, std::string_view right) {
  const auto a = id_of(left), b = id_of(right), merged = id_of(std::string(left).append(right));
  if (!a || !b || !merged) return false;
  merges_.insert_or_assign(pair_key(*a, *b), Merge{next_rank_++, *merged});
  return true;
}

const Bpe::Merge* Bpe::merge_of(int left, int right) const {
  const auto found = merges_.find(pair_key(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

/// The ids of the single characters. An unknown one waits in `unknown`, so that the next can be fused with
/// it.
std::vector<int> Bpe::characters(std::string_view piece) const {
  std::vector<int> ids;
  bool unknown = false;
  const auto flush = [&] {
    if (unknown) ids.push_back(*options_.unknown);
    unknown = false;
  };
  for (std::size_t at = 0, size = 0; at < piece.size(); at += size) {
    size = utf8_head(piece.substr(at)).bytes;
    const std::string_view character = piece.substr(at, size);
    if (const auto id = id_of(character)) {
      flush();
      ids.push_back(*id);
      continue;
    }
    const auto byte_id = [&](char c) { return byte_ids_[static_cast<unsigned char>(c)]; };
    if (options_.byte_fallback && std::ranges::all_of(character, [&](char c) { return byte_id(c) >= 0; })) {
      std::ranges::transform(character, std::back_inserter(ids), byte_id);
    } else if (options_.unknown) {
      if (!options_.fuse_unknown) flush();
      unknown = true;
    }
  }
  flush();
  return ids;
}

void Bpe::encode(std::string_view piece, std::vector<int>& ids) const {
  if (options_.ignore_merges)
    if (const auto id = id_of(piece)) return ids.push_back(*id);

  std::vector<Symbol> symbols;
  for (const int id : characters(piece)) {
    const int at = static_cast<int>(symbols.size());
    symbols.push_back({id, at - 1, at + 1});
  }
  const int end = static_cast<int>(symbols.size());
  const auto symbol = [&](int at) -> Symbol& { return symbols[static_cast<std::size_t>(at)]; };

  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  const auto offer = [&](int at) {  // the merge of a symbol with the next one
    if (at < 0 || symbol(at).after == end) return;
    if (const Merge* merge = merge_of(symbol(at).id, symbol(symbol(at).after).id))
      queue.push({merge->rank, at, merge->id});
  };
  for (int at = 0; at < end; ++at) offer(at);

  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    Symbol& left = symbol(best.at);
    if (left.merged_away || left.after == end) continue;
    Symbol& right = symbol(left.after);
    // A candidate is outdated once a neighbor has merged.
    if (const Merge* merge = merge_of(left.id, right.id); !merge || merge->id != best.id) continue;
    left.id = best.id;
    left.after = right.after;
    right.merged_away = true;
    if (left.after != end) symbol(left.after).before = best.at;
    offer(left.before);
    offer(best.at);
  }
  for (int at = 0; at < end; at = symbol(at).after) ids.push_back(symbol(at).id);
}

}  // namespace warptune
