#pragma once
// Stores of 128 contiguous bytes of a token, or 64 where gate and up share m64 tiles. The accumulators of a
// warp have 16 of the 64 outputs of an m64 tile, or 8 of 32, which is half a sector. So the warps of a
// warpgroup exchange vectors of 8 outputs through shared memory, over weights of the last stage that only
// they read.
#include "kernels/common/barrier.cuh"
#include "kernels/linear/streaming_epilogue.cuh"

namespace warptune {

/// S: as in streaming_wgmma.cuh, with weights(stage, m64 tile, warp, half, split): the address of the weights
/// of half of a warp's rows in a stage, at least 512 bytes.
template <class S>
class OutputExchange {
 public:
  /// `index`: the warpgroup's first m64 tile. `split`: its part of K among the warpgroups of that tile.
  __device__ __forceinline__ OutputExchange(const StreamingEpilogue<S>& epilogue, int index, int split)
      : epilogue_(epilogue), index_(index), split_(split) {}

  /// Before the main loop: the latency of the weights of the next norm would end the kernel.
  __device__ __forceinline__ void load(int m) {
    if (const int o = epilogue_.tile_out + output(m); o < S::kOut) rms_.load(epilogue_.args, o);
  }
  /// Stores the warpgroup's m64 tile `m`, over the weights of `stage`, which this warp has read.
  template <class Residual>
  __device__ __forceinline__ void store(const float (&sum)[S::kN / 2], const Residual& residual, int m,
                                        unsigned char* stage) const {
    const int first = tile(m) * S::kTileOutputs + warp() * kWarpOutputs;
    // A warp without outputs reads the weights of another warp; the others read their own only.
    if constexpr (S::kOutputs % S::kTileOutputs != 0)
      synchronize();
    else
      __syncwarp();
    // Two vectors at a time, one in each half.
    const auto exchange = [&](int v, const unsigned(&y)[4]) {
      const int half = v % 2;
      if (v > 0 && half == 0) synchronize();  // all have read the last two
      if (first < S::kOutputs)                // else there are no weights
        *vector_address(stage, m, warp(), half, epilogue_.lane) = make_uint4(y[0], y[1], y[2], y[3]);
      if (half == 0 && v + 1 < kVectors) return;
      synchronize();
#pragma unroll
      for (int i = 0; i <= half; ++i) {
        const uint4 other = *vector_address(stage, m, vector() / kWarpVectors, i, source_lane());
        store_vector({other.x, other.y, other.z, other.w}, (v - half + i) * kVectorTokens + token(), m);
      }
    };
    if constexpr (S::kSwiglu)
      epilogue_.for_each_swiglu_vector(sum, exchange);
    else
      epilogue_.for_each_vector(sum, sum, residual, first, exchange);
  }

 private:
  /// Vectors of a token in an m64 tile, those of one warp, and the tokens whose vectors the 128 lanes of the
  /// warpgroup hold at a time.
  static constexpr int kTokenVectors = S::kTileOutputs / 8, kWarpVectors = kTokenVectors / 4,
                       kWarpOutputs = 8 * kWarpVectors, kVectorTokens = 128 / kTokenVectors,
                       kVectors = ceil_div(S::kN, kVectorTokens);

  static __device__ __forceinline__ int thread() { return static_cast<int>(threadIdx.x) % 128; }
  static __device__ __forceinline__ int warp() { return thread() / 32; }
  static __device__ __forceinline__ void synchronize() {
    named_barrier_sync(3 + static_cast<int>(threadIdx.x) / 128, 128);
  }
  /// What this lane stores: a token among kVectorTokens, and one of its vectors.
  static __device__ __forceinline__ int token() { return thread() / kTokenVectors; }
  static __device__ __forceinline__ int vector() { return thread() % kTokenVectors; }
  /// The lane whose accumulators hold that vector.
  static __device__ __forceinline__ int source_lane() {
    return token() % 8 * 4 + token() / 8 * kWarpVectors + vector() % kWarpVectors;
  }
  __device__ __forceinline__ int tile(int m) const { return index_ + m * S::kWarpgroupsM; }
  __device__ __forceinline__ int output(int m) const { return tile(m) * S::kTileOutputs + vector() * 8; }

  /// The address of the vector of a lane of a warp. Their order avoids bank conflicts of reads.
  __device__ __forceinline__ uint4* vector_address(unsigned char* stage, int m, int warp, int half,
                                                   int lane) const {
    return reinterpret_cast<uint4*>(S::weights(stage, tile(m), warp, half, split_)) +
           (lane ^ warp * kWarpVectors);
  }
  /// Stores this lane's vector of a token of the kN.
  __device__ __forceinline__ void store_vector(const unsigned (&y)[4], int n, int m) const {
    const int token = epilogue_.first_token + n, o = epilogue_.tile_out + output(m);
    const bool is_valid = n < S::kN && token < epilogue_.tokens && output(m) < S::kOutputs && o < S::kOut;
    if (is_valid)
      store_16_bytes(
          static_cast<typename S::T*>(epilogue_.args.y) + static_cast<long long>(token) * S::kOut + o, y);
    rms_.store(epilogue_.args, y, token, o, is_valid, ~0u);
  }

  const StreamingEpilogue<S>& epilogue_;
  const int index_, split_;
  AddRms<S> rms_;
};

}  // namespace warptune
