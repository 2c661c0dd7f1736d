#pragma once
// The pieces of work of a launch, as its blocks draw them: see kernels/attention_prefill/work_list.cuh.
#include <vector>

#include "variants/attention_prefill/shape.h"

namespace warptune::prefill {

/// How queries are cut into tiles.
struct Tiling {
  std::int64_t tile_m, tile_n;
  std::int64_t together;  // heads whose tiles come one after the other, the longest first
  std::int64_t pack = 1;  // heads of a tile
  std::int64_t splits = 1;
};

/// In pairs of a query and a key. To begin and to end a piece takes as long as kEnds keys
/// (docs/tuning-notes.md). Sequences count as long as q_len and kv_len.
inline Drawn drawn_tiles(const Problem& p, const Tiling& t) {
  constexpr std::int64_t kEnds = 192;
  const std::int64_t q_len = p["q_len"], heads = p["batch"] * p["q_heads"] / t.pack,
                     tiles = ceil_div(q_len * t.pack, t.tile_m);
  const auto seen = [&](std::int64_t i) {
    return keys_seen(p["causal"], p["window"], q_len, p["kv_len"], i);
  };
  Drawn drawn;
  for (std::int64_t i = 0; i < q_len; ++i) drawn.asked += static_cast<double>(seen(i).last - seen(i).first);
  drawn.asked *= static_cast<double>(p["batch"] * p["q_heads"]);
  std::vector<double> lengths;  // of a tile of each place
  for (std::int64_t nth = 0; nth < tiles; ++nth) {
    const std::int64_t row = (p["causal"] == no ? nth : tiles - 1 - nth) * t.tile_m;
    const KeyRange first = seen(row / t.pack),
                   last = seen(std::min((row + t.tile_m - 1) / t.pack, q_len - 1));
    const std::int64_t steps =
        std::max<std::int64_t>(0, ceil_div(last.last, t.tile_n) - first.first / t.tile_n);
    lengths.push_back(static_cast<double>((ceil_div(steps, t.splits) * t.tile_n + kEnds) * t.tile_m));
  }
  for (std::int64_t head = 0; head < heads; head += t.together)
    for (const double length : lengths)
      drawn.runs.push_back({length, t.splits * std::min(t.together, heads - head)});
  return drawn;
}

}  // namespace warptune::prefill
