#pragma once
// How a run keeps its keys and values, and which of them it attends to.
#include <optional>
#include <string>

#include "harness/core/dtype.h"

namespace warptune {

struct KvFormat {
  std::optional<DType> quantized = {};  // int8 or fp8, with a scale per row; none: the dtype of the model
  int page_size = 0;                    // keys per page; 0: contiguous
  int window = 0;  // a token attends to the last so many keys, its own included; 0: to all

  DType stored(DType of_model) const { return quantized.value_or(of_model); }
  /// What is not plain, as the suffix of a plan_set: "+kv=int8+page=16+window=1024".
  std::string suffix() const;
};

/// Whether a plan_set has no such suffix.
bool has_plain_kv(const std::string& plan_set);

/// What prefill attends to: prompts see their keys unrounded, in a contiguous cache of their own, where the
/// one of decode is quantized.
inline KvFormat attended_in_prefill(const KvFormat& f) {
  return f.quantized ? KvFormat{.window = f.window} : f;
}

}  // namespace warptune
