#pragma once
// Problems of the attention ops.
#include <string>

#include "tests/support.h"

namespace warptune::testing {

inline const std::pair<std::string, std::string> kDsx{"k_layout", "dsx"}, kAppend{"append", "yes"},
    kBias{"bias", "yes"}, kProject{"epilogue", "project"}, kInterleaved{"style", "interleaved"},
    kDynamicNtk{"scaling", "dynamic_ntk"}, kNorm{"qk_norm", "yes"};

/// A problem of attention_decode.
inline Dims dims(int batch, int q_heads, int kv_heads, int head_dim, int context, Dims more = {}) {
  Dims d{{"batch", std::to_string(batch)},
         {"q_heads", std::to_string(q_heads)},
         {"kv_heads", std::to_string(kv_heads)},
         {"head_dim", std::to_string(head_dim)},
         {"context", std::to_string(context)}};
  d.insert(d.end(), more.begin(), more.end());
  return d;
}

/// A problem of attention_prefill.
inline Dims shape(int batch, int q_len, int kv_len, int q_heads, int kv_heads, int head_dim, Dims more = {}) {
  Dims dims = {{"batch", std::to_string(batch)},       {"q_len", std::to_string(q_len)},
               {"kv_len", std::to_string(kv_len)},     {"q_heads", std::to_string(q_heads)},
               {"kv_heads", std::to_string(kv_heads)}, {"head_dim", std::to_string(head_dim)}};
  dims.insert(dims.end(), more.begin(), more.end());
  return dims;
}

}  // namespace warptune::testing
