#pragma once
// Scaled dot-product attention by cuDNN.
#include <cstdint>
#include <memory>

#include "harness/core/dtype.h"
#include "kernels/attention_prefill/args.h"

namespace warptune {

/// q and out are [batch, q_len, q_heads, head_dim], K and V [batch, kv_heads, capacity, head_dim].
struct CudnnAttentionShape {
  DType dtype = DType::bf16;
  std::int64_t batch = 1, q_heads = 1, kv_heads = 1, q_len = 1, kv_len = 1, head_dim = 128;
  CausalMask causal = CausalMask::none;
  bool has_lengths = false;  // the number of keys of each sequence is in device memory; kv_len is the maximum
};

struct CudnnAttentionPointers {
  const void *q, *k, *v;
  void* out;
  const int* lengths;  // [batch], if the shape has_lengths
};

/// Attention with one of the execution plans that cuDNN's heuristic proposes. cuDNN fixes strides in the
/// plan: the first run with another capacity builds a new plan.
class CudnnAttention {
 public:
  static constexpr std::int64_t kWorkspaceBytes = 128 << 20;

  /// `plan` is an index into the plans of the heuristic. Throws ResourceError if there are fewer.
  CudnnAttention(const CudnnAttentionShape& shape, std::int64_t capacity, std::int64_t plan);
  ~CudnnAttention();

  /// `workspace` has kWorkspaceBytes.
  void run(const CudnnAttentionPointers& pointers, std::int64_t capacity, void* workspace, void* stream);

 private:
  struct ExecutionPlan;
  CudnnAttentionShape shape_;
  std::int64_t plan_;
  std::unique_ptr<ExecutionPlan> built_;
};

}  // namespace warptune
