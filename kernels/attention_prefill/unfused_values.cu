// Idea: stage 3 of 3. out = probabilities . v; a block makes kTile queries x kTile elements from tiles of
// both in shared memory, a thread one element.
#include "attention_prefill/sequence.cuh"
#include "common/pdl.cuh"

namespace warptune {

template <class T, int kQHeads, int kKvHeads, int kHeadDim, int kQLen, int kKvLen, int kTile>
__global__ void __launch_bounds__(kTile* kTile) attention_prefill_values(AttentionPrefillArgs args) {
  __shared__ float p_tile[kTile][kTile + 1], v_tile[kTile][kTile + 1];  // [query][key], [key][element]
  pdl_wait();
  const int b = blockIdx.z / kQHeads, head = blockIdx.z % kQHeads;
  const Sequence s = load_sequence(args, b);
  const int first_query = blockIdx.y * kTile, d = blockIdx.x * kTile + threadIdx.x;
  if (first_query >= s.q_len) return;
  const int x = threadIdx.x, y = threadIdx.y, query = first_query + y;
  const float* p = static_cast<const float*>(args.workspace) +
                   (static_cast<long long>(blockIdx.z) * kQLen + query) * kKvLen;
  const T* v = static_cast<const T*>(args.v_cache) + kv_offset_of<kQHeads, kKvHeads, kHeadDim>(args, b, head);
  float sum = 0;
  for (int k = 0; k < s.kv_len; k += kTile) {
    p_tile[y][x] = query < s.q_len && k + x < s.kv_len ? p[k + x] : 0.0f;
    v_tile[y][x] =
        k + y < s.kv_len && d < kHeadDim ? to_float(v[static_cast<long long>(k + y) * kHeadDim + d]) : 0.0f;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kTile; ++i) sum += p_tile[y][i] * v_tile[i][x];
    __syncthreads();
  }
  if (query < s.q_len && d < kHeadDim)
    static_cast<T*>(args.out)[(static_cast<long long>(s.first + query) * kQHeads + head) * kHeadDim + d] =
        from_float<T>(sum);
}

}  // namespace warptune
