#pragma once
// The persistent tile scheduler of the wgmma GEMMs of prompts.
#include "kernels/common/numeric.cuh"

namespace warptune {

struct WorkTile {
  int token, out;  // the first of this block
};

/// Assigns work tiles of kTileM tokens x kTileOut outputs round-robin to clusters, which take adjacent token
/// tiles of the same outputs, in groups of kGroupM clusters along the tokens: tiles that run together share x
/// and weights in the L2. kSplits blocks of a cluster have the same tile.
template <int kOut, int kTileM, int kTileOut, int kCluster, int kGroupM, int kSplits = 1>
struct GroupedScheduler {
  int token_tiles, tiles, index, rank;  // in clusters; the block's rank within its cluster

  __device__ __forceinline__ GroupedScheduler(int tokens)
      : token_tiles(ceil_div(tokens, kTileM * kCluster)),
        tiles(token_tiles * ceil_div(kOut, kTileOut)),
        index(blockIdx.x / (kCluster * kSplits)),
        rank(blockIdx.x % kCluster) {}
  __device__ __forceinline__ bool has_work() const { return index < tiles; }
  __device__ __forceinline__ void advance() { index += gridDim.x / (kCluster * kSplits); }
  __device__ __forceinline__ WorkTile work_tile() const {
    constexpr int kGroupTiles = kGroupM * ceil_div(kOut, kTileOut);
    const int group = index / kGroupTiles, in_group = index % kGroupTiles;
    const int rows = min(token_tiles - group * kGroupM, kGroupM);
    return {((group * kGroupM + in_group % rows) * kCluster + rank) * kTileM, in_group / rows * kTileOut};
  }
};

}  // namespace warptune
