#pragma once
// RoPE and KV cache append: splits fused qkv rows, adds the bias, normalizes heads of q and k (qk_norm),
// rotates them, and appends k and v.
// Pair i of a head is (x[i], x[i + D/2]) for half_split and (x[2i], x[2i+1]) for interleaved; it is rotated
// by angle = float(position) * inv_freq[i] (fp32, as Hugging Face does). For dynamic_ntk, inv_freq belongs to
// theta; in a sequence longer than max_position, theta becomes
// theta * (factor * length / max_position - (factor - 1)) ^ (D / (D - 2)), where length is that of the
// sequence with its new tokens.
//
// With a rotary dim R below head_dim (GPT-NeoX's partial RoPE) only the leading R elements of a head rotate:
// R takes the place of D above, and the elements after it are pairs of their own with inv_freq 0, which keep
// their values.
//
// A cache is contiguous, [batch, kv_heads, capacity, head_dim], or paged, [pages, kv_heads, page_size,
// head_dim]; block_table[b] lists the pages of sequence b in the order of its keys. K is [.., S, D] or [..,
// D/x, S, x] with x of 16 bytes. A quantized cache holds int8 or fp8 (e4m3): a row is rounded to dtype and
// divided by its scale, max |x| / 127 (448), which is stored in k_scale or v_scale. attention_decode reads it
// with kv_scale=token.

namespace warptune {

struct RopeAppendArgs {
  const void* qkv;      // [tokens, q_heads + 2 * kv_heads, head_dim], dtype
  const void* bias;     // [q_heads + 2 * kv_heads, head_dim], dtype; null where the problem has no bias
  const int* sequence;  // [tokens]: the sequence of the token, in [0, batch)
  const int* position;  // [tokens]: position in the sequence, below 2^17 where the problem's `start` is less,
                        // else below 2^30; below 0: the token is skipped
  const int* lengths;   // [batch]: KV length with the new tokens (dynamic_ntk only)
  const float* inv_freq;  // [head_dim / 2]; 0 for pairs that do not rotate
  void* q;                // [tokens, q_heads, head_dim], dtype
  void* k_cache;          // see above; dtype, int8 or fp8
  void* v_cache;
  int tokens;
  int capacity;  // keys per sequence that the cache can hold, a multiple of page_size
  float theta;
  float factor;
  int max_position;

  // Optional features; null where the problem does not use them.
  float* k_scale = nullptr;  // quantized: [batch, kv_heads, capacity], or paged:
  float* v_scale = nullptr;  // [pages, kv_heads, page_size]
  const int* block_table =
      nullptr;  // [batch, capacity / page_size]: pages; only those of written rows are read
};

/// The arguments with qk_norm: each head x of q and k becomes x / sqrt(mean(x^2) + eps) * weight.
struct NormRopeAppendArgs : RopeAppendArgs {
  const void* qk_norm = nullptr;  // [2, head_dim], dtype: the weights of q, and of k
  float eps = 0;
};

template <bool kNorm>
struct RopeAppendArgsOf {
  using Type = RopeAppendArgs;
};
template <>
struct RopeAppendArgsOf<true> {
  using Type = NormRopeAppendArgs;
};

}  // namespace warptune
