#pragma once
// Work tiles of a launch in scheduling order, for predictions of times.
// See kernels/attention_prefill/tile_scheduler.cuh.
#include <vector>

#include "variants/attention_prefill/problem.h"

namespace warptune::prefill {

/// How a launch cuts queries and keys into tiles.
struct Tiling {
  std::int64_t tile_m, tile_n;
  std::int64_t swizzle;           // heads per section; within a section the longest tiles come first
  std::int64_t packed_heads = 1;  // query heads per tile (pack_gqa)
  std::int64_t splits = 1;
};

/// Lengths are in pairs of a query and a key. All sequences count as q_len queries and kv_len keys.
inline WorkDistribution work_tiles(const Problem& p, const Tiling& t) {
  constexpr std::int64_t kOverheadKeys = 192;  // prologue and epilogue of a tile cost as much as these keys
  const std::int64_t q_len = p["q_len"], heads = p["batch"] * p["q_heads"] / t.packed_heads,
                     tiles = ceil_div(q_len * t.packed_heads, t.tile_m);
  const Mask mask = mask_of(p);
  const auto visible = [&](std::int64_t i) { return mask.visible_keys(q_len, p["kv_len"], i); };
  WorkDistribution work;
  for (std::int64_t i = 0; i < q_len; ++i)
    work.unpadded_length += static_cast<double>(visible(i).last - visible(i).first);
  work.unpadded_length *= static_cast<double>(p["batch"] * p["q_heads"]);
  std::vector<double> lengths;  // of the tiles of a head, in scheduling order
  for (std::int64_t nth = 0; nth < tiles; ++nth) {
    const std::int64_t row = (mask.causal == CausalMask::none ? nth : tiles - 1 - nth) * t.tile_m;
    const KeyRange first = visible(row / t.packed_heads),
                   last = visible(std::min((row + t.tile_m - 1) / t.packed_heads, q_len - 1));
    const std::int64_t kv_tiles =
        std::max<std::int64_t>(0, ceil_div(last.last, t.tile_n) - first.first / t.tile_n);
    lengths.push_back(
        static_cast<double>((ceil_div(kv_tiles, t.splits) * t.tile_n + kOverheadKeys) * t.tile_m));
  }
  for (std::int64_t head = 0; head < heads; head += t.swizzle)
    for (const double length : lengths)
      work.runs.push_back({length, t.splits * std::min(t.swizzle, heads - head)});
  return work;
}

}  // namespace warptune::prefill
