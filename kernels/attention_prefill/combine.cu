// Idea: the second kernel where blocks share the keys; one block per query and head merges what they left.
#include "kernels/attention_prefill/partials.cuh"
#include "kernels/common/pdl.cuh"

namespace warptune {

template <class T, class S, int kSplits, int kBlock>
__global__ void __launch_bounds__(kBlock) attention_prefill_combine(AttentionPrefillArgs args) {
  pdl_wait();
  const int i = blockIdx.x, head = blockIdx.y, b = blockIdx.z;
  const Sequence s = load_sequence(args, b);
  if (i >= s.q_len) return;
  const Partials<S, kSplits> partials(args);
  float most = -WARPTUNE_INFINITY, sum = 0;
  for (int split = 0; split < kSplits; ++split)
    most = fmaxf(most, partials.states[partials.index(split, s.first + i, head)].x);
  for (int split = 0; split < kSplits; ++split) {
    const float2 state = partials.states[partials.index(split, s.first + i, head)];
    if (state.y > 0) sum += state.y * exp2_fast(state.x - most);
  }
  T* const out =
      static_cast<T*>(args.out) + (static_cast<long long>(s.first + i) * S::kQHeads + head) * S::kHeadDimV;
  const float scale = normalizer<S>(args, sum);
  for (int d = threadIdx.x; d < S::kHeadDimV; d += kBlock) {
    float x = 0;
#pragma unroll 4
    for (int split = 0; split < kSplits; ++split) {
      const long long row = partials.index(split, s.first + i, head);
      const float2 state = partials.states[row];
      if (state.y > 0) x += partials.rows[row * S::kHeadDimV + d] * exp2_fast(state.x - most);
    }
    out[d] = from_float<T>(x * scale);
  }
  if constexpr (S::kLse)
    if (threadIdx.x == 0) lse_rows<S>(args, b, head)[i] = lse_of(most, sum);
}

}  // namespace warptune
