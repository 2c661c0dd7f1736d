#pragma once
// Scaled dot-product attention by cuDNN.
#include <cstdint>
#include <memory>

#include "harness/core/dtype.h"

namespace warptune {

/// q and out are [batch, q_len, q_heads, head_dim], K and V [batch, kv_heads, capacity, head_dim].
struct CudnnAttentionShape {
  enum class Causal { no, bottom_right, top_left };
  DType dtype = DType::bf16;
  std::int64_t batch = 1, q_heads = 1, kv_heads = 1, q_len = 1, kv_len = 1, head_dim = 128;
  Causal causal = Causal::no;
  bool lengths = false;  // the keys of each sequence are read from memory; kv_len is the most
};

struct CudnnAttentionPointers {
  const void *q, *k, *v;
  void* out;
  const int* lengths;  // [batch], where the shape says so
};

/// One of the plans that cuDNN's heuristic proposes. cuDNN takes strides when it plans: the first run with
/// another capacity plans anew.
class CudnnAttention {
 public:
  static constexpr std::int64_t kWorkspaceBytes = 128 << 20;

  /// Throws ResourceError where there is no plan of that number.
  CudnnAttention(const CudnnAttentionShape& shape, std::int64_t capacity, std::int64_t plan);
  ~CudnnAttention();

  /// `workspace`: kWorkspaceBytes.
  void run(const CudnnAttentionPointers& pointers, std::int64_t capacity, void* workspace, void* stream);

 private:
  struct Planned;
  CudnnAttentionShape shape_;
  std::int64_t plan_;
  std::unique_ptr<Planned> planned_;
};

}  // namespace warptune
