// Copies between packed sequences and sequences of one length, around the GEMMs of the variant `cublaslt`,
// whose batch has one stride. Threads copy vectors of up to 16 bytes.
// Layout of the workspace: `padding` bytes in, the queries, and later the output, as [batch, q_len, q_heads,
//   head_dim]; `values` bytes in, V as [batch, kv_heads, kv_len, head_dim].
// Rows of padding are zeros. V needs them: its rows beyond a sequence may hold NaN, and 0 * NaN is NaN. K
//   needs no copy, since the softmax reads no score of padding.
// Source: the padding of FasterTransformer's unfused attention; ByteTransformer removes it.
#include "kernels/attention_prefill/problem.cuh"
#include "kernels/common/pdl.cuh"
#include "kernels/common/vec.cuh"

namespace warptune {

template <class T>
__device__ __forceinline__ T* in_workspace(const AttentionPrefillArgs& args, long long bytes) {
  return reinterpret_cast<T*>(static_cast<unsigned char*>(args.workspace) + bytes);
}

/// Block (i, b) copies query i of sequence b, all heads, to the padded queries, or zeros.
template <class T, int kRow, int kQLen, long long kPadding, int kBlock>
__global__ void __launch_bounds__(kBlock) attention_prefill_pad_queries(AttentionPrefillArgs args) {
  constexpr int kVec = vec_width<T>(kRow);
  pdl_wait();
  const Sequence s = load_sequence(args, blockIdx.y);
  const int i = blockIdx.x;
  const T* const from = static_cast<const T*>(args.q) + (s.first_token + i) * args.q_stride;
  T* const to = in_workspace<T>(args, kPadding) + (static_cast<long long>(blockIdx.y) * kQLen + i) * kRow;
  for (int d = threadIdx.x * kVec; d < kRow; d += kBlock * kVec)
    store_vec<kVec>(to + d, i < s.q_len ? load_vec<kVec>(from + d) : Vec<T, kVec>{});
}

/// Block (x, h, b) copies the V rows of kBlock vectors of KV head h of sequence b, zeros beyond its keys.
template <class T, int kKvHeads, int kKvLen, int kHeadDim, long long kValues, int kBlock>
__global__ void __launch_bounds__(kBlock) attention_prefill_pad_values(AttentionPrefillArgs args) {
  constexpr int kVec = vec_width<T>(kHeadDim), kVectors = kHeadDim / kVec;
  pdl_wait();
  const long long vector = static_cast<long long>(blockIdx.x) * kBlock + threadIdx.x, key = vector / kVectors;
  const int d = static_cast<int>(vector % kVectors) * kVec;
  if (key >= kKvLen) return;
  const long long head = static_cast<long long>(blockIdx.z) * kKvHeads + blockIdx.y;
  const T* const from = static_cast<const T*>(args.v_cache) + (head * args.capacity + key) * kHeadDim + d;
  T* const to = in_workspace<T>(args, kValues) + (head * kKvLen + key) * kHeadDim + d;
  store_vec<kVec>(to, key < args.kv_lens[blockIdx.z] ? load_vec<kVec>(from) : Vec<T, kVec>{});
}

/// Block (i, b) copies row i of sequence b of the padded output to the packed output, if it is a query.
template <class T, int kRow, int kQLen, long long kPadding, int kBlock>
__global__ void __launch_bounds__(kBlock) attention_prefill_remove_padding(AttentionPrefillArgs args) {
  constexpr int kVec = vec_width<T>(kRow);
  pdl_wait();
  const Sequence s = load_sequence(args, blockIdx.y);
  const int i = blockIdx.x;
  if (i >= s.q_len) return;
  const T* const from =
      in_workspace<T>(args, kPadding) + (static_cast<long long>(blockIdx.y) * kQLen + i) * kRow;
  T* const to = static_cast<T*>(args.out) + static_cast<long long>(s.first_token + i) * kRow;
  for (int d = threadIdx.x * kVec; d < kRow; d += kBlock * kVec)
    store_vec<kVec>(to + d, load_vec<kVec>(from + d));
}

}  // namespace warptune
