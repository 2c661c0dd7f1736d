// Naive GEMM on CUDA cores: the readable baseline.
// Grid: one thread per output element (token, output row); a thread reads both rows element by element, where
//   the weights are quantized (packed_weights.cuh) converts each, and accumulates in fp32. A fused norm, or
//   quantized activations, take every thread one more pass over x, SwiGLU a second row of weight. For argmax
//   every thread puts a key (argmax.cuh). The squares of kSquaresGroup outputs are added by shuffles.
#include "kernels/common/numeric.cuh"
#include "kernels/common/pdl.cuh"
#include "kernels/linear/argmax.cuh"
#include "kernels/linear/fused.cuh"
#include "kernels/linear/packed_weights.cuh"

namespace warptune {

/// Computes and stores output i of all tokens. `Weights`: of PlainWeights or PackedWeights.
template <class T, class Weights, int kIn, int kOut, int kBias, int kPrologue, int kEpilogue,
          int kActivations, class Args>
__device__ __forceinline__ void compute_output(const Args& args, long long i) {
  const long long token = i / kOut, o = i % kOut;
  const T* x = static_cast<const T*>(args.x) + token * kIn;
  float scale = 1;
  if constexpr (kActivations == kActivationsFp8) {
    float largest = 0;
    for (int k = 0; k < kIn; ++k) largest = fmaxf(largest, fabsf(to_float(x[k])));
    scale = activation_scale(largest);
  }
  const auto dot = [&](long long row) {
    const Weights weights(args, row);
    float sum = 0;
    for (int i = 0; i < kIn; ++i) {
      const int k = weights.column(i);
      float value = to_float(x[k]);
      if constexpr (kPrologue == kPrologueRmsNorm)
        value *= to_float(static_cast<const T*>(args.norm_weight)[k]);
      if constexpr (kActivations == kActivationsFp8) value = to_float(from_float<fp8>(value * (1 / scale)));
      sum += value * weights[i];
    }
    return sum;
  };
  if constexpr (kPrologue == kPrologueRmsNorm) {
    float squares = 0;
    for (int k = 0; k < kIn; ++k) squares += to_float(x[k]) * to_float(x[k]);
    scale = rsqrtf(squares / kIn + args.eps);
  }
  if constexpr (kPrologue == kPrologueRmsScale) {
    constexpr int kGroups = kIn / kSquaresGroup;
    float squares = 0;
    for (int k = 0; k < kGroups; ++k) squares += args.squares[token * kGroups + k];
    scale = rsqrtf(squares / kIn + args.eps);
  }
  float y = scale * dot(o);
  if constexpr (kEpilogue == kEpilogueSwiglu) y = silu(y) * scale * dot(o + kOut);
  const T rounded =
      store_output<T, kOut, kBias, kEpilogue>(args, static_cast<int>(token), static_cast<int>(o), y,
                                              load_residual<T, kOut, kEpilogue>(args, token, o));
  if constexpr (kEpilogue == kEpilogueArgmax)
    put_key(args, static_cast<int>(token), SortKey<T, kOut>::make(rounded, static_cast<int>(o)));
  if constexpr (kEpilogue == kEpilogueAddRms) {
    const float value = to_float(rounded);
    static_cast<T*>(args.scaled)[i] =
        from_float<T>(value * to_float(static_cast<const T*>(args.norm_weight)[o]));
    float square = value * value;
    const unsigned group = 0xffffu << (threadIdx.x & 16);  // rows are whole groups: all of its lanes are here
#pragma unroll
    for (int offset = kSquaresGroup / 2; offset > 0; offset /= 2)
      square += __shfl_xor_sync(group, square, offset);
    if (i % kSquaresGroup == 0) args.squares_out[i / kSquaresGroup] = square;
  }
}

template <class T, int kIn, int kOut, int kBias, int kPrologue, int kEpilogue, int kWeights, int kGroup,
          int kZeros, int kActOrder, int kActivations, int kBlock>
__global__ void __launch_bounds__(kBlock)
    linear_naive(WeightArgsOf<kWeights, LinearArgsOf<kPrologue, kEpilogue>> args) {
  using Weights = WeightsOf<T, kIn, kWeights, kGroup, kZeros, kActOrder>;
  pdl_wait();
  const long long i = static_cast<long long>(blockIdx.x) * kBlock + threadIdx.x;
  if (i < static_cast<long long>(args.tokens) * kOut)
    compute_output<T, Weights, kIn, kOut, kBias, kPrologue, kEpilogue, kActivations>(args, i);
  if constexpr (kEpilogue == kEpilogueArgmax) write_ids<T, kOut, kBlock>(args);
}

}  // namespace warptune
