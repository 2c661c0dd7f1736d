#pragma once
// Rotary position embedding: the inverse frequencies of a model, with their scaling.
#include <vector>

namespace warptune {

/// The order is that of the labels of rope_append's dim `scaling`.
enum class RopeKind { none, linear, dynamic_ntk, llama3 };

struct RopeScaling {
  RopeKind kind = RopeKind::none;
  double theta = 10000;
  double factor = 1;
  double low_freq_factor = 1, high_freq_factor = 4;  // llama3
  int original_max_position = 8192;                  // llama3, and where dynamic_ntk starts to grow theta
  bool operator==(const RopeScaling&) const = default;
};

/// [head_dim / 2] angles per position. For dynamic_ntk they belong to `theta` as given: the op lets it grow.
/// Sources: Su et al., "RoFormer", 2021; the llama3 rule is from Meta's reference code of Llama 3.1.
std::vector<float> rope_inv_freq(int head_dim, const RopeScaling& scaling);

}  // namespace warptune
