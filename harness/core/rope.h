#pragma once
// Rotary position embedding: the inverse frequencies of a model, with their scaling.
#include <cstdint>
#include <vector>

namespace warptune {

/// The order is that of the labels of rope_append's dim `scaling`. yarn and longrope change the table of
/// frequencies and the scale of attention only, and have no label.
enum class RopeKind { none, linear, dynamic_ntk, llama3, yarn, longrope };

struct RopeScaling {
  RopeKind kind = RopeKind::none;
  double theta = 10000;
  double factor = 1;
  double low_freq_factor = 1, high_freq_factor = 4;  // llama3
  int original_max_position = 8192;      // llama3, yarn, longrope, and where dynamic_ntk starts to grow theta
  double beta_fast = 32, beta_slow = 1;  // yarn: rotations within the original length
  bool truncate = true;                  // yarn: the bounds of its ramp are integers
  std::vector<double> short_factors, long_factors;  // longrope: [head_dim / 2]
  /// yarn, longrope: multiplies q and k, so that scores are multiplied by its square.
  double attention_factor = 1;
  bool operator==(const RopeScaling&) const = default;
};

/// [head_dim / 2] angles per position. For dynamic_ntk they belong to `theta` as given: the op lets it grow.
/// `positions`: of the run; longrope has other frequencies where they exceed the original length.
/// Sources: Su et al., "RoFormer", 2021; the llama3 rule is from Meta's reference code of Llama 3.1; Peng et
/// al., "YaRN", 2023; Ding et al., "LongRoPE", 2024; yarn and longrope as in Hugging Face transformers.
std::vector<float> rope_inv_freq(int head_dim, const RopeScaling& scaling, std::int64_t positions = 0);

}  // namespace warptune
