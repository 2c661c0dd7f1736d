// Unfused attention: Q.K^T, softmax and P.V as three kernels, fp32 scores in the workspace, CUDA cores.
// Layout: scores are [batch, q_heads, q_len, kv_len]. The GEMMs compute a kTile x kTile output tile per
//   block, one element per thread, from kTile x kTile tiles of both inputs in shared memory. The softmax
//   takes one row per block, in place. Blocks count along x of the grid, which has no other long axis.
// Wins: nowhere; it is the plainest correct version. Its fourth kernel is the softmax of the variant
//   `cublaslt`, between two GEMMs of the library; padding.cu has the copies around them.
#include "kernels/attention_prefill/problem.cuh"
#include "kernels/common/pdl.cuh"
#include "kernels/common/reduce.cuh"
#include "kernels/common/softmax.cuh"

namespace warptune {

/// The output tile of a block of a GEMM: tiles of a head are neighbors, those of a row first.
template <class Shape, int kRows, int kColumns, int kTile>
struct GemmTile {
  static constexpr unsigned kAlong = ceil_div(kColumns, kTile), kDown = ceil_div(kRows, kTile);
  const int first_column = static_cast<int>(blockIdx.x % kAlong) * kTile,
            first_row = static_cast<int>(blockIdx.x / kAlong % kDown) * kTile;
  const unsigned pair = blockIdx.x / (kAlong * kDown);  // of a sequence and a query head
  const int b = static_cast<int>(pair / Shape::kQHeads), head = static_cast<int>(pair % Shape::kQHeads);
};

/// Stage 1: scores = q . k^T, neither scaled nor masked.
template <class T, class Shape, int kQLen, int kKvLen, int kTile>
__global__ void __launch_bounds__(kTile* kTile) attention_prefill_scores(typename Shape::Args args) {
  __shared__ float q_tile[kTile][kTile + 1], k_tile[kTile][kTile + 1];  // [row][element]
  pdl_wait();
  const GemmTile<Shape, kQLen, kKvLen, kTile> tile;
  const int b = tile.b, head = tile.head, first_query = tile.first_row, first_key = tile.first_column;
  const Sequence s = load_sequence(args, b);
  if (first_query >= s.q_len || first_key >= s.kv_len) return;
  const int x = threadIdx.x, y = threadIdx.y, query = first_query + y, key = first_key + y;
  const T* q =
      static_cast<const T*>(args.q) + (s.first_token + query) * args.q_stride + head * Shape::kHeadDim;
  const KeyRows<T, Shape> keys(args, b, head);
  const T* k = keys.at(min(key, s.kv_len - 1));
  float sum = 0;
  for (int d = 0; d < Shape::kHeadDim; d += kTile) {
    q_tile[y][x] = query < s.q_len && d + x < Shape::kHeadDim ? to_float(q[d + x]) : 0.0f;
    k_tile[y][x] = key < s.kv_len && d + x < Shape::kHeadDim ? to_float(k[keys.offset(d + x)]) : 0.0f;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kTile; ++i) sum += q_tile[y][i] * k_tile[x][i];
    __syncthreads();
  }
  float* scores =
      static_cast<float*>(args.workspace) + (static_cast<long long>(tile.pair) * kQLen + query) * kKvLen;
  if (query < s.q_len && first_key + x < s.kv_len) scores[first_key + x] = sum;
}

/// Stage 2: scale, bias, mask, softmax and dropout of one row in place. Keys that the query does not see get
/// weight 0.
template <class T, class Shape, int kQLen, int kKvLen, int kBlock>
__global__ void __launch_bounds__(kBlock) attention_prefill_softmax(typename Shape::Args args) {
  pdl_wait();
  const int query = blockIdx.x % kQLen, head = blockIdx.x / kQLen % Shape::kQHeads,
            b = blockIdx.x / kQLen / Shape::kQHeads;
  const Sequence s = load_sequence(args, b);
  if constexpr (Shape::kLse) pad_lse<Shape, kBlock>(args, s, b, head, query, 1);
  if (query >= s.q_len) return;
  const int end = key_end<Shape>(args, s, query), begin = key_begin<Shape>(args, s, query);
  const HeadBias<T, Shape> bias(args, s, b, head);
  const Dropout<Shape> dropout(args, b, head);
  float* row = static_cast<float*>(args.workspace) + static_cast<long long>(blockIdx.x) * kKvLen;
  const float scale_log2 = args.scale * kLog2e;

  float row_max = -WARPTUNE_INFINITY;
  for (int k = begin + threadIdx.x; k < end; k += kBlock) {
    row[k] = fmaf(row[k], scale_log2, bias.at(query, k));
    row_max = fmaxf(row_max, row[k]);
  }
  row_max = block_reduce<Max, kBlock>(row_max);
  const float offset =
      row_max == -WARPTUNE_INFINITY ? 0.0f : row_max;  // a bias of -infinity can hide all keys
  float row_sum = 0;
  for (int k = begin + threadIdx.x; k < end; k += kBlock) {
    const float p = exp2_fast(row[k] - offset);
    row[k] = dropout.drops(query, k) ? 0.0f : p;
    row_sum += p;
  }
  row_sum = block_reduce<Sum, kBlock>(row_sum);
  const float scale = output_scale<Shape>(args, row_sum);
  for (int k = threadIdx.x; k < s.kv_len; k += kBlock) row[k] = k >= begin && k < end ? row[k] * scale : 0;
  if constexpr (Shape::kLse)
    if (threadIdx.x == 0) lse_row<Shape>(args, b, head)[query] = log_sum_exp(row_max, row_sum);
}

/// Stage 3: out = weights . v.
template <class T, class Shape, int kQLen, int kKvLen, int kTile>
__global__ void __launch_bounds__(kTile* kTile) attention_prefill_values(typename Shape::Args args) {
  __shared__ float p_tile[kTile][kTile + 1], v_tile[kTile][kTile + 1];  // [query][key], [key][element]
  pdl_wait();
  const GemmTile<Shape, kQLen, Shape::kHeadDimV, kTile> tile;
  const int b = tile.b, head = tile.head, first_query = tile.first_row;
  const int d = tile.first_column + static_cast<int>(threadIdx.x);
  const Sequence s = load_sequence(args, b);
  if (first_query >= s.q_len) return;
  const int x = threadIdx.x, y = threadIdx.y, query = first_query + y;
  const float* p = static_cast<const float*>(args.workspace) +
                   (static_cast<long long>(tile.pair) * kQLen + query) * kKvLen;
  const ValueRows<T, Shape> v(args, b, head);
  float sum = 0;
  for (int k = 0; k < s.kv_len; k += kTile) {
    p_tile[y][x] = query < s.q_len && k + x < s.kv_len ? p[k + x] : 0.0f;
    v_tile[y][x] = k + y < s.kv_len && d < Shape::kHeadDimV ? to_float(v.at(k + y)[d]) : 0.0f;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kTile; ++i) sum += p_tile[y][i] * v_tile[i][x];
    __syncthreads();
  }
  if (query < s.q_len && d < Shape::kHeadDimV)
    static_cast<T*>(
        args.out)[(static_cast<long long>(s.first_token + query) * Shape::kQHeads + head) * Shape::kHeadDimV +
                  d] = from_float<T>(sum);
}

/// Between two GEMMs of cuBLASLt: one row of fp32 scores per block, rows [batch, q_heads, q_len] of kStride
/// elements, becomes weights of type T in place. kCausal is a value of CausalMask. kUneven: sequences are
/// padded to kQLen queries and kKvLen keys; the weights of padding are 0, whatever its scores are.
template <class T, int kQHeads, int kQLen, int kKvLen, int kCausal, bool kUneven, int kStride, int kBlock>
__global__ void __launch_bounds__(kBlock) attention_prefill_cublaslt_softmax(AttentionPrefillArgs args) {
  pdl_wait();
  constexpr auto kMask = static_cast<CausalMask>(kCausal);
  const int query = blockIdx.x;
  int q_len = kQLen, kv_len = kKvLen;
  if constexpr (kUneven) {
    const Sequence s = load_sequence(args, blockIdx.y / kQHeads);
    q_len = s.q_len, kv_len = query < s.q_len ? s.kv_len : 0;
  }
  int position = query + kv_len - q_len;
  if constexpr (kMask == CausalMask::top_left) position = query;
  if constexpr (kMask == CausalMask::offset) position = query + args.diagonal;
  float* const row =
      static_cast<float*>(args.workspace) + (static_cast<long long>(blockIdx.y) * kQLen + query) * kStride;
  softmax_row_in_place<T, kBlock>(row, kMask != CausalMask::none ? min(kv_len, position + 1) : kv_len, kKvLen,
                                  args.scale);
}

}  // namespace warptune
