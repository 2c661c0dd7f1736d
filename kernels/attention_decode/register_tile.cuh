#pragma once
// A KV tile that global memory loads bring directly into the fragments of mma_attention.cuh: no shared
// memory. mma_direct.cu and mma_project.cu attend to such tiles.
#include "kernels/attention_decode/mma_attention.cuh"

namespace warptune {

/// A lane's fragments of a KV tile, in registers.
template <class P, int kTileKv>
struct RegisterTile : FragmentLayout<P, kTileKv> {
  using Layout = FragmentLayout<P, kTileKv>;
  using C = typename P::C;
  using ValueVector = typename Layout::ValueVector;
  uint4 keys[Layout::kNTiles][Layout::kKVectors];
  ValueVector values[Layout::kNTiles][2][Layout::kVVectors];
  float k_scales[Layout::kNTiles][2], v_scales[Layout::kNTiles][2];

  /// Loads keys [first_key, first_key + cached) of the cache; lanes of later keys load the last of these.
  __device__ __forceinline__ void load(const KvCache<P>& cache, int first_key, int cached) {
    if (P::kAppend && cached == 0) return;
    const long long row = cache.row(first_key);
#pragma unroll
    for (int n = 0; n < Layout::kNTiles; ++n)
#pragma unroll
      for (int i = 0; i < Layout::kKVectors; ++i)
        load(keys[n][i], cache.k_at(row + min_of(Layout::k_key(n), cached - 1), Layout::k_column(i)));
#pragma unroll
    for (int n = 0; n < Layout::kNTiles; ++n)
#pragma unroll
      for (int odd = 0; odd < 2; ++odd) {
        const long long at = row + min_of(Layout::v_key(n, odd), cached - 1);
#pragma unroll
        for (int i = 0; i < Layout::kVVectors; ++i)
          load(values[n][odd][i], cache.v_at(at, Layout::v_column(i)));
        if constexpr (P::kRowScales) {
          k_scales[n][odd] = cache.k_scale(at);
          v_scales[n][odd] = cache.v_scale(at);
        }
      }
  }
  /// Replaces all keys from `cached` on by the new key.
  template <class Append>
  __device__ __forceinline__ void put_new_key(const Append& append, int cached) {
#pragma unroll
    for (int n = 0; n < Layout::kNTiles; ++n) {
      if (Layout::k_key(n) >= cached)
#pragma unroll
        for (int i = 0; i < Layout::kKVectors; ++i)
          keys[n][i] = *reinterpret_cast<const uint4*>(append.k + Layout::k_column(i));
#pragma unroll
      for (int odd = 0; odd < 2; ++odd) {
        if (Layout::v_key(n, odd) < cached) continue;
#pragma unroll
        for (int i = 0; i < Layout::kVVectors; ++i)
          values[n][odd][i] = *reinterpret_cast<const ValueVector*>(append.v + Layout::v_column(i));
        k_scales[n][odd] = append.scales[0];
        v_scales[n][odd] = append.scales[1];
      }
    }
  }
  __device__ __forceinline__ uint4 k(int n, int i) const { return keys[n][i]; }
  __device__ __forceinline__ ValueVector v(int n, int odd, int i) const { return values[n][odd][i]; }
  __device__ __forceinline__ float k_scale(int n, int odd) const { return k_scales[n][odd]; }
  __device__ __forceinline__ float v_scale(int n, int odd) const { return v_scales[n][odd]; }

 private:
  template <class Vector>
  static __device__ __forceinline__ void load(Vector& to, const C* from) {
    const auto x = load_vec_nc<sizeof(Vector) / sizeof(C)>(from);
    to = *reinterpret_cast<const Vector*>(&x);
  }
};

}  // namespace warptune
