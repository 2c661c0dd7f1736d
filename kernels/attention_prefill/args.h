#pragma once
// out[t,h] = softmax(q[t,h] . K * scale + bias) . V over the keys that query t sees. Queries of all sequences
// are packed (varlen): sequence b has rows cu_seqlens[b] to cu_seqlens[b+1] of q, and kv_lens[b] keys.
//
// Mask. Query i (of n) of a sequence with m keys has position p = i + m - n (no mask, and causal with
// bottom-right alignment), p = i (causal, top-left alignment) or p = i + diagonal (causal, offset). With a
// causal mask it sees keys 0 to min(p, m - 1); a window keeps the last `window` of them. Without a mask it
// sees all m keys. A query that sees no key gives zeros, and -infinity in lse.
//
// Layouts of K. Cache: [batch, kv_heads, capacity, head_dim]. Packed: [keys, kv_heads, head_dim], sequence b
// from row seqstart_k[b] on. Paged: [pages, kv_heads, page_size, head_dim], where key j of sequence b is row
// j % page_size of page block_table[b][j / page_size]. V has the same layout with head_dim_v. Layouts bshd
// and qkv have strides (StridedAttentionPrefillArgs), which serve any layout of contiguous rows. In K with
// the layout [D/x, S, x], x elements of 16 bytes, the rows of a head of a cache are [head_dim / x, capacity,
// x], and those of a page [head_dim / x, page_size, x]; V has rows as before.
//
// Dropout. The weight of (sequence b, head h, query i, key j) becomes 0 where word 2 * (i / 8 % 2) + j % 2 of
// philox4x32_10(counter, seed) is below drop_below, and is multiplied by keep_scale otherwise. The counter is
// {j / 2, i / 16 * 8 + i % 8, (b * q_heads + h) | offset's upper half << 16, offset's lower half}: one
// counter covers the four elements that a lane holds of an m16n8 fragment. Dropout changes neither row sums
// nor lse.

namespace warptune {

/// The order of the labels of the dim `causal`: the last query sees all keys, the first query sees one key,
/// or query i sees keys up to i + diagonal.
enum class CausalMask { none, bottom_right, top_left, offset };

/// The order of the labels of the dim `kv_layout`. bshd: [batch, capacity, kv_heads, head_dim]. qkv: the rows
/// of the QKV projection, [tokens, (q_heads + 2 kv_heads) * head_dim], hold q, k and v.
enum class KvLayout { cache, packed, bshd, qkv };

/// The order of the labels of the dim `bias_shape`, the shape of an additive bias: [q_heads, q_len, kv_len],
/// [batch, q_heads, q_len, kv_len] or [batch, 1, q_len, kv_len].
enum class BiasShape { heads, batch_heads, batch };

struct AttentionPrefillArgs {
  const void* q;          // [tokens, q_heads, head_dim], dtype, rows q_stride elements apart
  const void* k_cache;    // dtype, one of the layouts above
  const void* v_cache;    // the same layout
  const int* cu_seqlens;  // [batch + 1]: first row of q of each sequence
  const int* kv_lens;     // [batch]: keys of each sequence, its new tokens included
  void* out;              // [tokens, q_heads, head_dim_v], dtype
  void* workspace;        // of the size that the variant declares, zeroed before the first launch
  int batch;
  int capacity;  // cache, bshd: keys that a sequence has room for; packed, qkv: rows of K and V
  float scale;   // softmax scale

  int tokens;          // rows of q
  int q_len, kv_len;   // of the longest sequences
  long long q_stride;  // at least q_heads * head_dim
  int window;          // keys that a query sees at most, where there is a window
  int diagonal;        // causal, offset: the position of query 0; may be negative

  const int* seqstart_k;      // packed, qkv: [batch]: first row of K and V of each sequence
  const int* block_table;     // paged: [batch, max_pages]
  int max_pages;              // paged: entries of the block table per sequence
  const void* score_bias;     // additive: dtype, of the BiasShape
  const float* alibi_slopes;  // alibi: [q_heads]; the bias is -slope * |p - key|
  const unsigned* philox;     // dropout: seed and offset (below 2^48), lower half first: four words
  unsigned drop_below;        // dropout: probability * 2^32
  float keep_scale;           // dropout: 1 / (1 - probability)
  float* lse;  // [batch, q_heads, q_len rounded up to 32], or null: natural logarithm of the sum of
               // exp(score); +infinity beyond the queries of a sequence
};

/// Winners are recognized by the machine code of their kernels, which the size of the parameters is part of.
static_assert(sizeof(AttentionPrefillArgs) == 160,
              "further members belong to a struct derived from this one");

/// Elements between neighbors of each kind. Rows are contiguous, and start at multiples of 16 bytes if their
/// length is one.
struct KvStrides {
  long long batch;  // unused where seqstart_k says where sequences start
  long long head, row;
};
/// The same of a bias [batch, q_heads, q_len, kv_len]; 0: the same bias for all. If `row` is even, so are the
/// others.
struct BiasStrides {
  long long batch, head, row;
};

/// What kernels get where K and V, or the bias, have strides. Other kernels read the first part only.
struct StridedAttentionPrefillArgs : AttentionPrefillArgs {
  KvStrides k_strides, v_strides;  // layouts bshd and qkv
  BiasStrides bias_strides;        // bias shapes batch_heads and batch
};

}  // namespace warptune
