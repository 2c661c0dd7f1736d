#pragma once
// The epilogues of the streaming wgmma GEMMs: the scale of a token, bias, residual or SwiGLU in fp32, then
// 16-byte stores of 8 outputs of a token. The accumulators are [weight row][token]: either 8x8 transposes in
// registers turn them, or, with split K, partial sums in shared memory are read along the rows. Then argmax.
#include "kernels/common/cluster.cuh"
#include "kernels/common/transpose.cuh"
#include "kernels/linear/argmax.cuh"
#include "kernels/linear/fused.cuh"

namespace warptune {

/// Epilogue add_rms, for 8 outputs of a token from `o` on that a lane has rounded: y times the weight of the
/// next norm and, with the lane beside it, which has the other 8 of kSquaresGroup, the sum of their squares.
template <class S>
class AddRms {
 public:
  /// Before the main loop: the latency of the weights would end the kernel.
  __device__ __forceinline__ void load(const typename S::Args& args, int o) {
    if constexpr (S::kAddRms) weight_ = load_vec<8>(static_cast<const T*>(args.norm_weight) + o);
  }
  /// The lanes of `mask` call, in pairs.
  __device__ __forceinline__ void store(const typename S::Args& args, const unsigned (&y)[4], int token,
                                        int o, bool is_valid, unsigned mask) const {
    if constexpr (S::kAddRms) {
      const auto* const weight = reinterpret_cast<const unsigned*>(&weight_);
      unsigned scaled[4];
      float squares = 0;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        scaled[i] = multiply_pairs<T>(y[i], weight[i]);
        squares = add_squares<T>(squares, y[i]);
      }
      squares += __shfl_xor_sync(mask, squares, 1);
      if (!is_valid) return;
      const long long at = static_cast<long long>(token) * S::kOut + o;
      *reinterpret_cast<uint4*>(static_cast<T*>(args.scaled) + at) =
          make_uint4(scaled[0], scaled[1], scaled[2], scaled[3]);
      if (o % kSquaresGroup == 0) args.squares_out[at / kSquaresGroup] = squares;
    }
  }

 private:
  using T = typename S::T;
  Vec<T, S::kAddRms ? 8 : 1> weight_;
};

/// Where the vectors of a lane lie: vector v of a 16-row fragment is 8 outputs of one token.
template <class S>
struct StreamingEpilogue {
  using T = typename S::T;
  static constexpr int kVectors = S::kN / 16;

  const typename S::Args& args;
  const float* const scales;                       // with kRmsScale: of each token from first_token on
  const int tile_out, lane;                        // the first output of the work tile
  const int first_token = 0, tokens = S::kTokens;  // the first of the kN, and those of the problem

  __device__ __forceinline__ int token(int v) const {
    return first_token + 16 * v + lane % 4 / 2 * 8 + lane / 4;
  }
  __device__ __forceinline__ int output(int first) const { return first + lane % 2 * 8; }
  __device__ __forceinline__ bool is_valid(int v, int first) const {
    return token(v) < (S::kTokens == 0 ? tokens : S::kTokens) && output(first) < S::kOutputs &&
           tile_out + output(first) < S::kOut;
  }
  __device__ __forceinline__ long long offset(int v, int first) const {
    return static_cast<long long>(token(v)) * S::kOut + tile_out + output(first);
  }

  /// Stores a fragment of 16 outputs from `first` (within the work tile) of all tokens. Accumulators: gates
  /// and ups with SwiGLU, else the same sums twice.
  template <class Residual, class Keys>
  __device__ __forceinline__ void store(const float (&sum)[S::kN / 2], const float (&up)[S::kN / 2],
                                        const Residual& residual, Keys& keys, int first) const {
    for_each_vector(sum, up, residual, first, [&](int v, const unsigned(&y)[4]) {
      if (is_valid(v, first)) {
        T* const to = static_cast<T*>(args.y) + offset(v, first);
        if constexpr (S::kTokens == 0)
          store_16_bytes(to, y);
        else
          *reinterpret_cast<uint4*>(to) = make_uint4(y[0], y[1], y[2], y[3]);
      }
      residual.rms.store(args, y, token(v), tile_out + output(first), is_valid(v, first), ~0u);
      if constexpr (S::kArgmax)
        if (is_valid(v, first)) keys.add(v, y, tile_out + output(first));
    });
  }
  /// Calls f(v, y) with the vectors of such a fragment.
  template <class Residual, class F>
  __device__ __forceinline__ void for_each_vector(const float (&sum)[S::kN / 2], const float (&up)[S::kN / 2],
                                                  const Residual& residual, int first, const F& f) const {
    float bias[2] = {};
    if constexpr (S::kBias != 0) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int o = tile_out + first + half * 8 + lane / 4;
        if (o < S::kOut) bias[half] = to_float(static_cast<const T*>(args.bias)[o]);
      }
    }
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      unsigned added[4] = {};
      if constexpr (S::kAdd) {
        added[0] = residual.vectors[v].x, added[1] = residual.vectors[v].y;
        added[2] = residual.vectors[v].z, added[3] = residual.vectors[v].w;
        quad_transpose(added, lane);
      }
      unsigned y[4];
#pragma unroll
      for (int item = 0; item < 4; ++item) {  // tokens 8 * (2 * v + item / 2) and on, rows 8 * (item % 2)
        const int i = 4 * (2 * v + item / 2) + 2 * (item % 2);
        const auto scale = scales_of(8 * (2 * v + item / 2) + lane % 4 * 2);
        float pair[2] = {scale[0] * sum[i] + bias[item % 2], scale[1] * sum[i + 1] + bias[item % 2]};
        if constexpr (S::kAdd) {
          const unsigned bits = matrix_transpose(added[item]);
          const auto r = to_float(*reinterpret_cast<const Vec<T, 2>*>(&bits));
          pair[0] += r[0], pair[1] += r[1];
        }
        if constexpr (S::kSwiglu)
          pair[0] = silu(pair[0]) * (scale[0] * up[i]), pair[1] = silu(pair[1]) * (scale[1] * up[i + 1]);
        y[item] = matrix_transpose(pack2<T>(pair[0], pair[1]));
      }
      quad_transpose(y, lane);
      f(v, y);
    }
  }

  /// The same where gate and up share an m64 tile, of which a warp has 8 outputs: vector v of a lane belongs
  /// to token 32 * v + lane % 4 * 8 + lane / 4.
  template <class F>
  __device__ __forceinline__ void for_each_swiglu_vector(const float (&sum)[S::kN / 2], const F& f) const {
#pragma unroll
    for (int v = 0; v < ceil_div(S::kN, 32); ++v) {
      unsigned y[4] = {};
#pragma unroll
      for (int item = 0; item < 4 && 32 * v + 8 * item < S::kN; ++item) {
        const int first = 32 * v + 8 * item;  // of eight tokens
        const auto scale = scales_of(first + lane % 4 * 2);
        const float *const gate = sum + first / 2, *const up = gate + 2;
        y[item] = matrix_transpose(pack2<T>(silu(scale[0] * gate[0]) * (scale[0] * up[0]),
                                            silu(scale[1] * gate[1]) * (scale[1] * up[1])));
      }
      quad_transpose(y, lane);
      f(v, y);
    }
  }

 private:
  /// The scales of two adjacent tokens, the first even.
  __device__ __forceinline__ Vec<float, 2> scales_of(int first) const {
    if constexpr (S::kRmsScale) return load_vec<2>(scales + first);
    return {{1, 1}};
  }
};

/// Epilogue argmax (argmax.cuh): the largest keys of a lane's tokens over all its outputs.
template <class S>
struct StreamingKeys {
  using Key = SortKey<typename S::T, S::kOut>;
  typename Key::Word largest[S::kArgmax ? S::kN / 16 : 1] = {};

  /// 8 outputs from `first` of the token of vector v.
  __device__ __forceinline__ void add(int v, const unsigned (&y)[4], int first) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const auto pair = *reinterpret_cast<const Vec<typename S::T, 2>*>(&y[i]);
      const int o = first + 2 * i;
      largest[v] = max_key(largest[v], max_key(Key::make(pair[0], o), Key::make(pair[1], o + 1)));
    }
  }
  /// Reduces the keys of the block in shared `memory`, and combines them with those of other blocks. All
  /// consumers call.
  __device__ __forceinline__ void write(const typename S::Args& args, unsigned char* memory, int lane) const {
    auto* const of_warps = reinterpret_cast<typename Key::Word*>(memory);  // [warp][token]
    constexpr int kWarps = S::kConsumers / 32;
#pragma unroll
    for (int v = 0; v < S::kN / 16; ++v) {
      const auto key = max_key(largest[v], __shfl_xor_sync(~0u, largest[v], 1));  // the fragment's other half
      const int token = 16 * v + lane % 4 / 2 * 8 + lane / 4;
      if (lane % 2 == 0) of_warps[threadIdx.x / 32 * S::kN + token] = key;
    }
    named_barrier_sync(1, S::kConsumers);
    for (int token = threadIdx.x; token < S::kTokens; token += S::kConsumers) {
      auto key = of_warps[token];
#pragma unroll
      for (int warp = 1; warp < kWarps; ++warp) key = max_key(key, of_warps[warp * S::kN + token]);
      put_key(args, token, key);
    }
  }
};

/// The residual of a fragment, in the layout of its stores: a lane loads what it will store, so it may be y.
/// With it, the weights of the next norm.
template <class S>
struct StreamingResidual {
  AddRms<S> rms;
  uint4 vectors[S::kAdd ? S::kN / 16 : 1];

  __device__ __forceinline__ void load(const StreamingEpilogue<S>& at, int first) {
    if (const int o = at.tile_out + at.output(first); o < S::kOut) rms.load(at.args, o);
    if constexpr (S::kAdd) {
#pragma unroll
      for (int v = 0; v < S::kN / 16; ++v)
        vectors[v] = at.is_valid(v, first)
                         ? *reinterpret_cast<const uint4*>(
                               static_cast<const typename S::T*>(at.args.residual) + at.offset(v, first))
                         : uint4{};
    }
  }
};

/// Split K: adds the partial sums [token][row] of the blocks of a cluster that split it, each block a part of
/// the vectors.
template <class S>
class StreamingSplitEpilogue {
  using T = typename S::T;
  // With add_rms a block has whole pairs of octets.
  static constexpr int kOctets = S::kOutputs / 8, kTogether = S::kAddRms ? 2 : 1,
                       kMine = kTogether * ceil_div(S::kTokens * kOctets, kTogether*S::kClusterK),
                       kPerThread = ceil_div(kMine, S::kConsumers);

 public:
  /// The residual of a thread's vectors, with the weights of the next norm.
  struct Residual {
    Vec<T, 8> vectors[S::kAdd ? kPerThread : 1];
    AddRms<S> rms[S::kAddRms ? kPerThread : 1];
  };

  template <class Schedule>
  __device__ __forceinline__ StreamingSplitEpilogue(const typename S::Args& args, const Schedule& work,
                                                    const float* partial, const float* scales)
      : args_(args),
        partial_(partial),
        scales_(scales),
        tile_out_(work.tile * S::kOutputs),
        rank_m_(work.rank_m),
        first_(work.rank_k * kMine + static_cast<int>(threadIdx.x)) {}

  /// Before the main loop: the latency would end the kernel.
  __device__ __forceinline__ Residual load_residual() const {
    Residual residual;
    if constexpr (S::kAdd) {
#pragma unroll
      for (int i = 0; i < kPerThread; ++i)
        if (is_valid(i)) {
          residual.vectors[i] = load_vec<8>(static_cast<const T*>(args_.residual) + offset(i));
          if constexpr (S::kAddRms) residual.rms[i].load(args_, tile_out_ + output(i));
        }
    }
    return residual;
  }
  __device__ __forceinline__ void add_and_store(const Residual& residual) const {
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
      if (!is_valid(i)) continue;
      Vec<float, 8> y = sum(token(i) * S::kPitch + output(i));
      float scale = 1;
      if constexpr (S::kRmsScale) {
        scale = scales_[token(i)];
#pragma unroll
        for (int j = 0; j < 8; ++j) y[j] *= scale;
      }
      if constexpr (S::kBias != 0)
        add(y, load_vec<8>(static_cast<const T*>(args_.bias) + tile_out_ + output(i)));
      if constexpr (S::kAdd) add(y, residual.vectors[i]);
      if constexpr (S::kSwiglu) {
        const auto up = sum(token(i) * S::kPitch + S::kOutputs + output(i));
#pragma unroll
        for (int j = 0; j < 8; ++j) y[j] = silu(y[j]) * (scale * up[j]);
      }
      const auto rounded = from_float<T>(y);
      store_vec<8>(static_cast<T*>(args_.y) + offset(i), rounded);
      if constexpr (S::kAddRms) {
        const unsigned pair = 3u << (threadIdx.x % 32 & ~1u);
        residual.rms[i].store(args_, reinterpret_cast<const unsigned(&)[4]>(rounded), token(i),
                              tile_out_ + output(i), true, pair);
      }
    }
  }

 private:
  __device__ __forceinline__ int vector(int i) const { return first_ + i * S::kConsumers; }
  __device__ __forceinline__ int token(int i) const { return vector(i) / kOctets; }
  __device__ __forceinline__ int output(int i) const { return vector(i) % kOctets * 8; }
  __device__ __forceinline__ bool is_valid(int i) const {
    return i * S::kConsumers + static_cast<int>(threadIdx.x) < kMine && token(i) < S::kTokens &&
           tile_out_ + output(i) < S::kOut;
  }
  __device__ __forceinline__ long long offset(int i) const {
    return static_cast<long long>(token(i)) * S::kOut + tile_out_ + output(i);
  }
  static __device__ __forceinline__ void add(Vec<float, 8>& y, const Vec<T, 8>& v) {
    const auto values = to_float(v);
#pragma unroll
    for (int j = 0; j < 8; ++j) y[j] += values[j];
  }
  __device__ __forceinline__ Vec<float, 8> sum(int at) const {
    float4 parts[S::kClusterK][2];
#pragma unroll
    for (int k = 0; k < S::kClusterK; ++k)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        parts[k][half] =
            cluster_load(reinterpret_cast<const float4*>(partial_ + at) + half, k * S::kClusterM + rank_m_);
    Vec<float, 8> y;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float4 total = parts[0][half];
#pragma unroll
      for (int k = 1; k < S::kClusterK; ++k) {
        const float4 p = parts[k][half];
        total.x += p.x, total.y += p.y, total.z += p.z, total.w += p.w;
      }
      y[half * 4] = total.x, y[half * 4 + 1] = total.y, y[half * 4 + 2] = total.z, y[half * 4 + 3] = total.w;
    }
    return y;
  }

  const typename S::Args& args_;
  const float *const partial_, *const scales_;
  const int tile_out_, rank_m_, first_;
};

}  // namespace warptune
