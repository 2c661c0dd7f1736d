#pragma once
// The decode step of persistent_step.cuh by plain kernels, one per op. They round to bf16 where packets do.
#include "scripts/evidence/persistent_step.cuh"

namespace warptune::persistent::reference {

__device__ inline float block_sum(float x) {
  __shared__ float sums[32];
  for (int mask = 16; mask > 0; mask /= 2) x += __shfl_xor_sync(~0u, x, mask);
  __syncthreads();
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = x;
  __syncthreads();
  float sum = 0;
  for (unsigned w = 0; w < blockDim.x / 32; ++w) sum += sums[w];
  return sum;
}

/// One block. x [n], y [n].
__global__ void rms_norm(const bf16* x, const bf16* weight, bf16* y, int n) {
  float squares = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) squares += to_float(x[i]) * to_float(x[i]);
  const float scale = rsqrtf(block_sum(squares) / n + 1e-5f);
  for (int i = threadIdx.x; i < n; i += blockDim.x)
    y[i] = from_float<bf16>(to_float(x[i]) * to_float(weight[i]) * scale);
}

/// A block per row. y[row] = weight[row] . x (+ residual[row]).
template <class T>
__global__ void gemv(const bf16* weight, const bf16* x, const bf16* residual, T* y, int k) {
  float sum = 0;
  for (int i = threadIdx.x; i < k; i += blockDim.x)
    sum += to_float(weight[1ll * blockIdx.x * k + i]) * to_float(x[i]);
  sum = block_sum(sum);
  if (threadIdx.x == 0) y[blockIdx.x] = from_float<T>(sum + (residual ? to_float(residual[blockIdx.x]) : 0));
}

/// RoPE of queries and keys in place, and the append to the cache of the layer. A block per head.
template <class S>
__global__ void rope_append(bf16* qkv, const float* inv_freq, bf16* k_cache, bf16* v_cache, int position) {
  const int head = blockIdx.x, i = threadIdx.x;
  bf16* const at = qkv + head * S::kHeadDim;
  if (head < S::kQHeads + S::kKvHeads) {
    const float angle = position * inv_freq[i], x = to_float(at[i]), y = to_float(at[i + 32]);
    at[i] = from_float<bf16>(x * cosf(angle) - y * sinf(angle));
    at[i + 32] = from_float<bf16>(y * cosf(angle) + x * sinf(angle));
  }
  if (head < S::kQHeads) return;
  const int kv = head - S::kQHeads;
  bf16* const to = (kv < S::kKvHeads ? k_cache : v_cache) +
                   (1ll * (kv % S::kKvHeads) * S::kContext + position) * S::kHeadDim;
  to[i] = at[i];
  to[i + 32] = at[i + 32];
}

/// A block of 64 threads per query head.
template <class S>
__global__ void attention(const bf16* qkv, const bf16* k_cache, const bf16* v_cache, bf16* y, int keys) {
  __shared__ float scores[S::kContext];
  const long long kv = 1ll * (blockIdx.x / S::kGroup) * S::kContext * S::kHeadDim;
  float maximum = -INFINITY, sum = 0, out = 0;
  for (int key = threadIdx.x; key < keys; key += blockDim.x) {
    float score = 0;
    for (int d = 0; d < S::kHeadDim; ++d)
      score += to_float(qkv[blockIdx.x * S::kHeadDim + d]) * to_float(k_cache[kv + key * S::kHeadDim + d]);
    scores[key] = score * 0.125f;
  }
  __syncthreads();
  for (int key = 0; key < keys; ++key) maximum = fmaxf(maximum, scores[key]);
  for (int key = 0; key < keys; ++key) {
    const float p = expf(scores[key] - maximum);
    sum += p;
    out += p * to_float(v_cache[kv + key * S::kHeadDim + threadIdx.x]);
  }
  y[blockIdx.x * S::kHeadDim + threadIdx.x] = from_float<bf16>(out / sum);
}

__global__ void swiglu(const float* gate_up, bf16* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = from_float<bf16>(gate_up[i] / (1 + expf(-gate_up[i])) * gate_up[n + i]);
}

/// The buffers of a step; those of a layer hold the last layer.
struct Buffers {
  bf16 *qkv, *middle, *inner, *residual, *normalized, *attention;
  float *gate_up, *logits;
};

/// The step of `args` with a cache of its own; enqueues to the default stream.
template <class S>
void step(const Args& args, const Buffers& b, bf16* k_cache, bf16* v_cache, int token) {
  cudaMemcpyAsync(b.residual, args.embedding + 1ll * token * S::kHidden, S::kHidden * sizeof(bf16),
                  cudaMemcpyDeviceToDevice);
  for (int layer = 0; layer < args.layers; ++layer) {
    const bf16* const w = args.weights + layer * S::kLayerWeights;
    const long long cache = 1ll * layer * S::kKvHeads * S::kContext * S::kHeadDim;
    const bf16* const norms = args.norms + layer * 2 * S::kHidden;
    bf16* const no_residual = nullptr;
    rms_norm<<<1, 256>>>(b.residual, norms, b.normalized, S::kHidden);
    gemv<<<S::kQkvWidth, 128>>>(w + S::kQkvAt, b.normalized, no_residual, b.qkv, S::kHidden);
    rope_append<S><<<S::kQHeads + 2 * S::kKvHeads, 32>>>(b.qkv, args.inv_freq, k_cache + cache,
                                                         v_cache + cache, args.position);
    attention<S><<<S::kQHeads, S::kHeadDim>>>(b.qkv, k_cache + cache, v_cache + cache, b.attention,
                                              args.position + 1);
    gemv<<<S::kHidden, 128>>>(w + S::kOAt, b.attention, b.residual, b.middle, S::kQWidth);
    rms_norm<<<1, 256>>>(b.middle, norms + S::kHidden, b.normalized, S::kHidden);
    gemv<<<2 * S::kInner, 128>>>(w + S::kGateUpAt, b.normalized, no_residual, b.gate_up, S::kHidden);
    swiglu<<<ceil_div(S::kInner, 256), 256>>>(b.gate_up, b.inner, S::kInner);
    gemv<<<S::kHidden, 128>>>(w + S::kDownAt, b.inner, b.middle, b.residual, S::kInner);
  }
  rms_norm<<<1, 256>>>(b.residual, args.norms + args.layers * 2 * S::kHidden, b.normalized, S::kHidden);
  gemv<<<S::kVocab, 128>>>(args.head, b.normalized, static_cast<const bf16*>(nullptr), b.logits, S::kHidden);
}

}  // namespace warptune::persistent::reference
