#pragma once
// The format of a run's KV cache, and its attention window.
#include <optional>
#include <string>
#include <string_view>

#include "harness/core/dtype.h"

namespace warptune {

/// The layout of K of a KV head: rows of D elements, or [D/x, S, x] with x of 16 bytes, over the S keys of a
/// sequence or page.
enum class KLayout { sd, dsx };

struct KvFormat {
  std::optional<DType> quantized = {};  // int8 or fp8, with a scale per row; none: the dtype of the model
  int page_size = 0;                    // keys per page; 0: contiguous
  int window =
      0;  // sliding window: the number of last keys, its own included, that a token attends to; 0: all
  KLayout k_layout = KLayout::sd;

  DType stored(DType of_model) const { return quantized.value_or(of_model); }
  /// The settings that are not the default, as the suffix of a plan_set:
  /// "+kv=int8+page=16+window=1024+k_layout=dsx".
  std::string suffix() const;
  bool operator==(const KvFormat&) const = default;
};

/// The format of a run of a model with this window (0: none), unless the format has a window itself.
inline KvFormat with_window(KvFormat format, int window) {
  if (format.window == 0) format.window = window;
  return format;
}

/// The format of a suffix. Throws InputError for a text that is none.
KvFormat parse_kv_suffix(std::string_view text);

/// Whether a plan_set has no suffix with a value: the step is greedy, of sequences of one length, and has a
/// plain KV cache.
bool is_plain_step(const std::string& plan_set);

/// The format that prefill attends to. If decode's cache is quantized, prompts attend to unrounded keys in a
/// contiguous cache of their own, with rows of D elements.
inline KvFormat attended_in_prefill(const KvFormat& f) {
  return f.quantized ? KvFormat{.window = f.window} : f;
}

}  // namespace warptune
