#pragma once
// out[t,h] = softmax(q[t,h] . K * scale + bias) . V over the keys that query t sees. Queries of all sequences
// are packed (varlen): sequence b has rows cu_seqlens[b] to cu_seqlens[b+1] of q, and kv_lens[b] keys.
//
// Mask. Query i (of n) of a sequence with m keys has position p = i + m - n (no mask, and causal with
// bottom-right alignment) or p = i (causal, top-left alignment). With a causal mask it sees keys 0 to
// min(p, m - 1); a window keeps the last `window` of them. Without a mask it sees all m keys. A query that
// sees no key gives zeros, and -infinity in lse.
//
// Layouts of K. Cache: [batch, kv_heads, capacity, head_dim]. Packed: [keys, kv_heads, head_dim], sequence b
// from row seqstart_k[b] on. Paged: [pages, kv_heads, page_size, head_dim], where key j of sequence b is row
// j % page_size of page block_table[b][j / page_size]. V has the same layout with head_dim_v.
//
// Dropout. The weight of (sequence b, head h, query i, key j) becomes 0 where word 2 * (i / 8 % 2) + j % 2 of
// philox4x32_10(counter, seed) is below drop_below, and is multiplied by keep_scale otherwise. The counter is
// {j / 2, i / 16 * 8 + i % 8, (b * q_heads + h) | offset's upper half << 16, offset's lower half}: one
// counter covers the four elements that a lane holds of an m16n8 fragment. Dropout changes neither row sums
// nor lse.

namespace warptune {

/// The order of the labels of the dim `causal`: the last query sees all keys, or the first query sees one
/// key.
enum class CausalMask { none, bottom_right, top_left };

struct AttentionPrefillArgs {
  const void* q;          // [tokens, q_heads, head_dim], dtype, rows q_stride elements apart
  const void* k_cache;    // dtype, one of the layouts above
  const void* v_cache;    // the same layout
  const int* cu_seqlens;  // [batch + 1]: first row of q of each sequence
  const int* kv_lens;     // [batch]: keys of each sequence, its new tokens included
  void* out;              // [tokens, q_heads, head_dim_v], dtype
  void* workspace;        // of the size that the variant declares, zeroed before the first launch
  int batch;
  int capacity;  // cache: keys that a sequence has room for; packed: rows of K and V
  float scale;   // softmax scale

  int tokens;          // rows of q
  int q_len, kv_len;   // of the longest sequences
  long long q_stride;  // at least q_heads * head_dim
  int window;          // keys that a query sees at most, where there is a window

  const int* seqstart_k;      // packed: [batch]: first row of K and V of each sequence
  const int* block_table;     // paged: [batch, max_pages]
  int max_pages;              // paged: entries of the block table per sequence
  const void* score_bias;     // additive: [q_heads, q_len, kv_len], dtype
  const float* alibi_slopes;  // alibi: [q_heads]; the bias is -slope * |p - key|
  const unsigned* philox;     // dropout: seed and offset (below 2^48), lower half first: four words
  unsigned drop_below;        // dropout: probability * 2^32
  float keep_scale;           // dropout: 1 / (1 - probability)
  float* lse;  // [batch, q_heads, q_len rounded up to 32], or null: natural logarithm of the sum of
               // exp(score); +infinity beyond the queries of a sequence
};

}  // namespace warptune
