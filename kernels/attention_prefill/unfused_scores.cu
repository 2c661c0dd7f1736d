// Idea: stage 1 of 3. Scores q . k of every query and key as fp32 in the workspace, [batch, q_heads, q_len,
// kv_len]; a block makes a kTile x kTile piece from tiles of q and k in shared memory, a thread one score.
#include "kernels/attention_prefill/sequence.cuh"
#include "kernels/common/pdl.cuh"

namespace warptune {

template <class T, class S, int kQLen, int kKvLen, int kTile>
__global__ void __launch_bounds__(kTile* kTile) attention_prefill_scores(AttentionPrefillArgs args) {
  __shared__ float q_tile[kTile][kTile + 1], k_tile[kTile][kTile + 1];  // [row][element]
  pdl_wait();
  const int b = blockIdx.z / S::kQHeads, head = blockIdx.z % S::kQHeads;
  const Sequence s = load_sequence(args, b);
  const int first_query = blockIdx.y * kTile, first_key = blockIdx.x * kTile;
  if (first_query >= s.q_len || first_key >= s.kv_len) return;
  const int x = threadIdx.x, y = threadIdx.y, query = first_query + y, key = first_key + y;
  const T* q = static_cast<const T*>(args.q) + (s.first + query) * args.q_stride + head * S::kHeadDim;
  const T* k = KeyRows<T, S, S::kHeadDim>(args, args.k_cache, b, head).at(min(key, s.kv_len - 1));
  float sum = 0;
  for (int d = 0; d < S::kHeadDim; d += kTile) {
    q_tile[y][x] = query < s.q_len && d + x < S::kHeadDim ? to_float(q[d + x]) : 0.0f;
    k_tile[y][x] = key < s.kv_len && d + x < S::kHeadDim ? to_float(k[d + x]) : 0.0f;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kTile; ++i) sum += q_tile[y][i] * k_tile[x][i];
    __syncthreads();
  }
  float* scores =
      static_cast<float*>(args.workspace) + (static_cast<long long>(blockIdx.z) * kQLen + query) * kKvLen;
  if (query < s.q_len && first_key + x < s.kv_len) scores[first_key + x] = sum;
}

}  // namespace warptune
