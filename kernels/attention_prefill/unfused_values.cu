// Idea: stage 3 of 3. out = probabilities . v; a block makes kTile queries x kTile elements from tiles of
// both in shared memory, a thread one element.
#include "kernels/attention_prefill/sequence.cuh"
#include "kernels/common/pdl.cuh"

namespace warptune {

template <class T, class S, int kQLen, int kKvLen, int kTile>
__global__ void __launch_bounds__(kTile* kTile) attention_prefill_values(AttentionPrefillArgs args) {
  __shared__ float p_tile[kTile][kTile + 1], v_tile[kTile][kTile + 1];  // [query][key], [key][element]
  pdl_wait();
  const int b = blockIdx.z / S::kQHeads, head = blockIdx.z % S::kQHeads;
  const Sequence s = load_sequence(args, b);
  const int first_query = blockIdx.y * kTile, d = blockIdx.x * kTile + threadIdx.x;
  if (first_query >= s.q_len) return;
  const int x = threadIdx.x, y = threadIdx.y, query = first_query + y;
  const float* p = static_cast<const float*>(args.workspace) +
                   (static_cast<long long>(blockIdx.z) * kQLen + query) * kKvLen;
  const KeyRows<T, S, S::kHeadDimV> v(args, args.v_cache, b, head);
  float sum = 0;
  for (int k = 0; k < s.kv_len; k += kTile) {
    p_tile[y][x] = query < s.q_len && k + x < s.kv_len ? p[k + x] : 0.0f;
    v_tile[y][x] = k + y < s.kv_len && d < S::kHeadDimV ? to_float(v.at(k + y)[d]) : 0.0f;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kTile; ++i) sum += p_tile[y][i] * v_tile[i][x];
    __syncthreads();
  }
  if (query < s.q_len && d < S::kHeadDimV)
    static_cast<T*>(
        args.out)[(static_cast<long long>(s.first + query) * S::kQHeads + head) * S::kHeadDimV + d] =
        from_float<T>(sum);
}

}  // namespace warptune
