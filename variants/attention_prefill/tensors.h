#pragma once
// The data of an attention_prefill problem: lengths of its sequences, places of K and V in memory, tensors,
// and the reference that reads them.
#include "harness/core/op.h"
#include "variants/attention_prefill/problem.h"

namespace warptune::prefill {

/// Lengths of the sequences of a problem; without `uneven` all have q_len queries and kv_len keys. The keys
/// of layout qkv are those of the queries' own rows.
struct Lengths {
  std::vector<std::int32_t> q_lens, kv_lens;
};
Lengths lengths_of(const Problem& p);
std::int64_t tokens_of(const Problem& p);

/// Rows of K and V: of a sequence, or all of packed sequences.
std::int64_t capacity_of(const Problem& p);
std::int64_t max_pages_of(const Problem& p);
std::int64_t q_stride_of(const Problem& p);
float scale_of(const Problem& p);

/// Element 0 of K (or V) in its tensor, and its strides; pages count as sequences.
struct KvPlace {
  std::int64_t first;
  KvStrides strides;
};
KvPlace kv_place(const Problem& p, bool is_key);
BiasStrides bias_strides(const Problem& p);

std::vector<TensorSpec> tensors(const Problem& p, std::uint64_t seed);
void reference(const Problem& p, const Inputs& in, std::int64_t unit, Expected& out);

}  // namespace warptune::prefill
