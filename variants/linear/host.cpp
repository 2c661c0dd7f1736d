// Host variants of linear.
#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <vector>

#include "harness/core/parallel.h"
#include "kernels/linear/args.h"
#include "kernels/linear/packed_weights.h"
#include "variants/argmax/index_of_largest.h"
#include "variants/linear/linear.h"
#include "variants/linear/operands.h"

namespace warptune {
namespace {

/// Independent partial sums, so that the compiler may use vector registers.
template <class T, class W>
float dot(const T* x, const W* w, std::int64_t n) {
  constexpr std::int64_t kLanes = 16;
  float sums[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (std::int64_t j = 0; j < kLanes; ++j)
      sums[j] += static_cast<float>(x[i + j]) * static_cast<float>(w[i + j]);
  float sum = 0;
  for (const float s : sums) sum += s;
  for (; i < n; ++i) sum += static_cast<float>(x[i]) * static_cast<float>(w[i]);
  return sum;
}

/// The GEMM of a problem in dtype T, with its prologue and epilogue.
template <class T>
class HostGemm {
 public:
  HostGemm(const Problem& p, const void* raw)
      : args_(*static_cast<const LinearArgs*>(raw)),
        in_(p["in"]),
        out_(p["out"]),
        epilogue_(p["epilogue"]),
        weights_(static_cast<int>(p["weights"])),
        group_(static_cast<int>(p["group"])) {
    const bool normalizes = p["prologue"] == kPrologueRmsNorm, scales = p["prologue"] == kPrologueRmsScale;
    if (normalizes || scales || epilogue_ != kEpilogueNone) fused_ = static_cast<const FusedLinearArgs*>(raw);
    if (scales || epilogue_ == kEpilogueAddRms) split_ = static_cast<const SplitNormLinearArgs*>(raw);
    if (normalizes) normalize();
    if (p["activations"] == kActivationsFp8) quantize();
    if (scales) add_squares();
  }

  /// x of a token, normalized or quantized where the problem says so.
  const T* x(std::int64_t token) const {
    return (taken_.empty() ? static_cast<const T*>(args_.x) : taken_.data()) + token * in_;
  }
  /// Computes an output with `dot` and stores it.
  template <class Dot>
  void compute(std::int64_t token, std::int64_t o, Dot dot) const {
    const float scale = scales_.empty() ? 1 : scales_[token];
    const auto dot_with = [&](std::int64_t row) {
      if (weights_ != kWeightsSame) return dot(x(token), dequantized(row).data(), in_);
      return dot(x(token), static_cast<const T*>(args_.weight) + row * in_, in_);
    };
    float y = scale * dot_with(o);
    if (args_.bias) y += static_cast<const T*>(args_.bias)[o];
    if (epilogue_ == kEpilogueAdd || epilogue_ == kEpilogueAddRms)
      y += static_cast<const T*>(fused_->residual)[token * out_ + o];
    if (epilogue_ == kEpilogueSwiglu) y = y / (1 + std::exp(-y)) * scale * dot_with(out_ + o);
    static_cast<T*>(args_.y)[token * out_ + o] = y;
  }

  /// What an epilogue makes of all outputs.
  void finish() const {
    if (epilogue_ == kEpilogueArgmax) store_ids();
    if (epilogue_ == kEpilogueAddRms) store_scaled();
  }

 private:
  /// A row of quantized weights, in the order of x.
  std::vector<float> dequantized(std::int64_t row) const {
    const auto& args = static_cast<const QuantizedLinearArgs&>(args_);
    const DType scale_dtype = weight_scale_dtype(weights_, group_);
    const float row_scale = weights_ == kWeightsNvfp4 ? args.row_scales[row] : 1;
    std::vector<float> values(in_);
    for (std::int64_t i = 0; i < in_; ++i) {
      const std::int64_t at = scale_index(weights_, group_, in_, row, i);
      const float scale = static_cast<float>(load(scale_dtype, args.scales, at)) * row_scale;
      const PackedPosition position = packed_position(weights_, in_, row, i);
      const std::uint8_t byte = static_cast<const std::uint8_t*>(args.weight)[position.byte];
      float value = static_cast<std::int8_t>(byte);
      if (weights_ == kWeightsFp8) value = std::bit_cast<fp8>(byte);
      if (is_fp4(weights_)) value = fp4_value(byte >> position.shift & 15);
      if (has_super_blocks(weights_)) {
        const auto* const pair = static_cast<const std::uint8_t*>(args.scales) + 2 * at;
        const std::int64_t steps = super_step_index(weights_, in_, row, i);
        const auto d = static_cast<float>(load(DType::fp16, args.scales, steps));
        if (weights_ == kWeightsQ6K) {
          values[i] = d * static_cast<std::int8_t>(pair[i / group_ % 2]) * static_cast<std::int8_t>(byte);
        } else {
          const auto dmin = static_cast<float>(load(DType::fp16, args.scales, steps + 1));
          values[i] = d * pair[0] * (byte >> position.shift & 15) - dmin * pair[1];
        }
        continue;
      }
      if (weights_ == kWeightsInt4)
        value = static_cast<float>((byte >> position.shift & 15) - 8 - (args.zeros ? args.zeros[at] : 0));
      values[args.order ? args.order[i] : i] = value * scale;
    }
    return values;
  }
  void store_ids() const {
    int* const ids = static_cast<const ArgmaxLinearArgs*>(fused_)->ids;
    for (std::int64_t token = 0; token < args_.tokens; ++token)
      ids[token] =
          index_of_largest(static_cast<const T*>(args_.y), token * out_, (token + 1) * out_) - token * out_;
  }
  void store_scaled() const {
    const T *const y = static_cast<const T*>(args_.y), *const weight =
                                                           static_cast<const T*>(fused_->norm_weight);
    T* const scaled = static_cast<T*>(split_->scaled);
    std::fill_n(split_->squares_out, args_.tokens * out_ / kSquaresGroup, 0.0f);
    for (std::int64_t i = 0; i < args_.tokens * out_; ++i) {
      const float value = y[i];
      scaled[i] = value * weight[i % out_];
      split_->squares_out[i / kSquaresGroup] += value * value;
    }
  }
  /// The scales of the tokens from the sums of their squares.
  void add_squares() {
    const std::int64_t groups = in_ / kSquaresGroup;
    for (std::int64_t token = 0; token < args_.tokens; ++token) {
      const float* const of_token = split_->squares + token * groups;
      const float squares = std::accumulate(of_token, of_token + groups, 0.0f);
      scales_.push_back(1 / std::sqrt(squares / in_ + fused_->eps));
    }
  }
  void normalize() {
    taken_.resize(args_.tokens * in_);
    for (std::int64_t token = 0; token < args_.tokens; ++token) {
      const T* const row = static_cast<const T*>(args_.x) + token * in_;
      const float squares = dot(row, row, in_);
      const float scale = 1 / std::sqrt(squares / in_ + fused_->eps);
      for (std::int64_t i = 0; i < in_; ++i)
        taken_[token * in_ + i] = row[i] * scale * static_cast<const T*>(fused_->norm_weight)[i];
    }
  }
  /// Values of e4m3, which T holds exactly; their scales multiply the sums.
  void quantize() {
    for (std::int64_t token = 0; token < args_.tokens; ++token) {
      const T* const row = static_cast<const T*>(args_.x) + token * in_;
      float largest = 0;
      for (std::int64_t i = 0; i < in_; ++i)
        largest = std::max(largest, std::abs(static_cast<float>(row[i])));
      scales_.push_back(activation_scale(largest));
      for (std::int64_t i = 0; i < in_; ++i)
        taken_.push_back(static_cast<float>(fp8(static_cast<float>(row[i]) * (1 / scales_.back()))));
    }
  }

  const LinearArgs& args_;
  const FusedLinearArgs* fused_ = nullptr;      // null: a plain GEMM
  const SplitNormLinearArgs* split_ = nullptr;  // null: no half of a norm
  std::int64_t in_, out_, epilogue_;
  int weights_, group_;
  std::vector<T> taken_;       // [tokens, in]; empty: x is taken as it is
  std::vector<float> scales_;  // [tokens]; empty: sums are taken as they are
};

HostFunction naive(const Problem& p) {
  return [p](const void* raw) {
    with_float_dtype(p.dtype, [&]<class T>() {
      const HostGemm<T> gemm(p, raw);
      const auto one_by_one = [](const T* x, const auto* w, std::int64_t n) {
        float sum = 0;
        for (std::int64_t i = 0; i < n; ++i) sum += static_cast<float>(x[i]) * static_cast<float>(w[i]);
        return sum;
      };
      for (std::int64_t token = 0; token < p["tokens"]; ++token)
        for (std::int64_t o = 0; o < p["out"]; ++o) gemm.compute(token, o, one_by_one);
      gemm.finish();
    });
  };
}

/// A block of weight rows serves all tokens while it is in the cache.
HostFunction blocked(const Problem& p, std::int64_t block, int threads) {
  return [=](const void* raw) {
    with_float_dtype(p.dtype, [&]<class T>() {
      const HostGemm<T> gemm(p, raw);
      const std::int64_t out = p["out"], tokens = p["tokens"];
      parallel_for(ceil_div(out, block), threads, [&](std::int64_t group) {
        const std::int64_t last = std::min(out, (group + 1) * block);
        for (std::int64_t token = 0; token < tokens; ++token)
          for (std::int64_t o = group * block; o < last; ++o)
            gemm.compute(token, o, [](auto... a) { return dot(a...); });
      });
      gemm.finish();
    });
  };
}

}  // namespace

std::vector<Variant> linear_host() {
  return {
      {
          .name = "host_naive",
          .idea = "One thread computes outputs one by one.",
          .backend = Backend::host,
          .host = [](const Problem& p, const Config&) { return naive(p); },
      },
      {
          .name = "host_blocked",
          .idea = "Blocks of weight rows over threads, partial sums in vector registers.",
          .backend = Backend::host,
          .parameters = {{"block", {8, 64}, "weight rows per block"},
                         {"threads", {1, 2, 4, 8, 16, 32}, "worker threads"}},
          .constraints = {"threads <= sms", "block * (threads - 1) < out || threads == 1"},
          .host = [](const Problem& p, const Config& c) { return blocked(p, c["block"], c["threads"]); },
      },
  };
}

}  // namespace warptune
