#pragma once
// out[b,h] = softmax(q[b,h] . K[b,h/group] * scale + bias) . V[b,h/group] over the first lengths[b] keys, or
// over the last `window` of these: one query token per sequence. With `append`, RoPE and the KV cache append
// are fused in: q, k and v come as one fused qkv row, the bias is added, q and k are normalized (qk_norm) and
// rotated as rope_append does (kernels/rope_append/args.h) at position lengths[b] - 1, and k and v are
// written there.
//
// A cache is contiguous, [batch, kv_heads, capacity, head_dim], or paged, [pages, kv_heads, page_size,
// head_dim]; block_table[b] lists the pages of sequence b in key order. K has the layout [S, D] (rows of
// head_dim elements) or [D/x, S, x] (x elements are 16 bytes). The dims of the problem select these.
//
// A quantized cache holds int8 or fp8 (e4m3) codes; value = code * scale, with one scale per KV head or per
// row. An appended row is rounded to dtype and then quantized with the scale of its head, or with a scale of
// its own, max |x| / 127 (fp8: 448), which is written next to it. Attention reads the quantized row.
#include "kernels/common/score_bias.h"

namespace warptune {

/// How the results of the splits of a sequence are combined. A variant offers a subset.
enum class Combine {
  kernel,      // a second kernel reads the partial results
  last_block,  // the last block to arrive does (threadFenceReduction sample)
  cluster,     // distributed shared memory of a thread block cluster (sm_90)
  ll,          // flag-in-data packets, as NCCL's LL protocol
};
/// How a block that made new rows of k and v in shared memory stores them in the cache: an element per
/// thread, or 16 bytes per thread.
enum class AppendStore { element, vector };
/// What is applied to the output: nothing; (x + shift) * smooth; the same quantized to int8; or the output
/// projection and the residual add, residual + o_weight . x.
enum class Epilogue { none, smooth, quantize, project };

struct AttentionDecodeArgs {
  const void* q;  // [batch, q_heads, head_dim], dtype; with append: [batch, q_heads + 2 * kv_heads, head_dim]
  void* k_cache;  // see above; dtype, int8 or fp8
  void* v_cache;
  // lengths, block_table, bias and inv_freq may be read before pdl_wait(): no kernel of the step writes them.
  const int* lengths;     // [batch]: keys of each sequence, the current token included; 0: out is zeros
  const void* bias;       // append only: [q_heads + 2 * kv_heads, head_dim], dtype, or null
  const float* inv_freq;  // append only: [head_dim / 2]
  void* out;              // [batch, q_heads, head_dim], dtype; int8 with Epilogue::quantize
  void* workspace;        // workspace_bytes of the variant, zeroed before the first launch
  int batch;
  int capacity;  // keys that the cache can hold per sequence, a multiple of page_size
  float scale;

  // Optional features; null where the problem does not use them.
  float* k_scale = nullptr;  // quantized caches: [kv_heads], or per row [batch, kv_heads, capacity]
  float* v_scale = nullptr;  // (paged: [pages, kv_heads, page_size]); per head nonzero, per row any finite
  const int* block_table = nullptr;     // [batch, capacity / page_size]: page numbers; valid where keys are
  const float* alibi_slopes = nullptr;  // [q_heads]: slope * (key - (lengths[b] - 1)) is added to a score
  const void* score_bias = nullptr;     // [batch, q_heads, capacity], dtype: added to a score; -inf masks
  float* lse = nullptr;                 // [batch, q_heads]: ln(sum of exp(score)); -inf without keys
  // Epilogues: y = (x + shift) * smooth, and int8(y * out_scale), rounded to nearest even, -127 to 127. A
  // sequence without keys has x = 0.
  const void* shift = nullptr;   // [q_heads, head_dim], dtype
  const void* smooth = nullptr;  // [q_heads, head_dim], dtype
  float out_scale = 0;
};

/// The arguments with Epilogue::project. `out` lies in the workspace: the rows before the projection. The
/// first member of a derived struct has 8 bytes, so that all compilers place it after the padding of the
/// base.
struct ProjectDecodeArgs : AttentionDecodeArgs {
  const void* o_weight = nullptr;  // [hidden, q_heads * head_dim], dtype
  const void* residual = nullptr;  // [batch, hidden], dtype
  void* y = nullptr;               // [batch, hidden], dtype; may be residual
};

/// The arguments with RoPE whose theta grows with lengths[b] (append with scaling=dynamic_ntk). inv_freq
/// belongs to `theta`.
struct DynamicNtkDecodeArgs : ProjectDecodeArgs {
  double theta;
  float factor;
  int max_position;
};

/// The arguments with qk_norm: before RoPE each head x of q and k becomes x / sqrt(mean(x^2) + eps) * weight.
struct NormDecodeArgs : DynamicNtkDecodeArgs {
  const void* qk_norm = nullptr;  // [2, head_dim], dtype: the weights of q, and of k
  float eps = 0;
};

}  // namespace warptune
