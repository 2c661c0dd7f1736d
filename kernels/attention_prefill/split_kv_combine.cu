// Split-KV combine: the second kernel of flash_mma with splits > 1.
// Grid: one block of kBlock threads per query and head. It rescales the partial outputs of all splits to
//   their common row maximum, sums and normalizes them; threads run over head_dim_v.
// Source: Flash-Decoding (split-KV with a separate reduction kernel).
#include "kernels/attention_prefill/split_kv.cuh"
#include "kernels/common/pdl.cuh"

namespace warptune {

template <class T, class Shape, int kSplits, int kBlock>
__global__ void __launch_bounds__(kBlock) attention_prefill_split_kv_combine(AttentionPrefillArgs args) {
  pdl_wait();
  const int i = blockIdx.x, head = blockIdx.y, b = blockIdx.z;
  const Sequence s = load_sequence(args, b);
  if (i >= s.q_len) return;
  const SplitKvWorkspace<Shape, kSplits> partials(args);
  float row_max = -WARPTUNE_INFINITY, row_sum = 0;
  for (int split = 0; split < kSplits; ++split)
    row_max = fmaxf(row_max, partials.max_sum[partials.row(split, s.first_token + i, head)].x);
  for (int split = 0; split < kSplits; ++split) {
    const float2 max_sum = partials.max_sum[partials.row(split, s.first_token + i, head)];
    if (max_sum.y > 0) row_sum += max_sum.y * exp2_fast(max_sum.x - row_max);
  }
  T* const out = static_cast<T*>(args.out) +
                 (static_cast<long long>(s.first_token + i) * Shape::kQHeads + head) * Shape::kHeadDimV;
  const float scale = output_scale<Shape>(args, row_sum);
  for (int d = threadIdx.x; d < Shape::kHeadDimV; d += kBlock) {
    float x = 0;
#pragma unroll 4
    for (int split = 0; split < kSplits; ++split) {
      const long long row = partials.row(split, s.first_token + i, head);
      const float2 max_sum = partials.max_sum[row];
      if (max_sum.y > 0) x += partials.out[row * partials.kDim + d] * exp2_fast(max_sum.x - row_max);
    }
    out[d] = from_float<T>(x * scale);
  }
  if constexpr (Shape::kLse)
    if (threadIdx.x == 0) lse_row<Shape>(args, b, head)[i] = log_sum_exp(row_max, row_sum);
}

}  // namespace warptune
