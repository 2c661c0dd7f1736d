// Host variants of linear.
#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <utility>
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

/// Values that are dequantized at once: 64 KB, which stay in the cache of a core.
constexpr std::int64_t kCachedValues = 16384;

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
  /// Computes outputs [first, last) of all tokens with `dot` and stores them. Their weight rows are
  /// dequantized once.
  template <class Dot>
  void compute(std::int64_t first, std::int64_t last, Dot dot) const {
    if (weights_ == kWeightsSame) {
      const T* const weight = static_cast<const T*>(args_.weight) + first * in_;
      store(first, last, weight, weight + out_ * in_, dot);
      return;
    }
    const std::int64_t rows = std::max<std::int64_t>(1, kCachedValues / in_);
    for (; first < last; first += rows) {
      const std::int64_t end = std::min(first + rows, last);
      const bool gated = epilogue_ == kEpilogueSwiglu;
      const std::vector<float> values = dequantized(first, end),
                               up = gated ? dequantized(out_ + first, out_ + end) : std::vector<float>();
      store(first, end, values.data(), up.data(), dot);
    }
  }

  /// What an epilogue makes of all outputs.
  void finish() const {
    if (epilogue_ == kEpilogueArgmax) store_ids();
    if (epilogue_ == kEpilogueAddRms) store_scaled();
  }

 private:
  /// `weight`: the rows of these outputs; `up`: with SwiGLU the rows of up.
  template <class W, class Dot>
  void store(std::int64_t first, std::int64_t last, const W* weight, const W* up, Dot dot) const {
    for (std::int64_t token = 0; token < args_.tokens; ++token)
      for (std::int64_t o = first; o < last; ++o) {
        const std::int64_t row = (o - first) * in_;
        const float scale = scales_.empty() ? 1 : scales_[token];
        float y = scale * dot(x(token), weight + row, in_);
        if (args_.bias) y += static_cast<const T*>(args_.bias)[o];
        if (epilogue_ == kEpilogueAdd || epilogue_ == kEpilogueAddRms)
          y += static_cast<const T*>(fused_->residual)[token * out_ + o];
        if (epilogue_ == kEpilogueSwiglu) y = y / (1 + std::exp(-y)) * scale * dot(x(token), up + row, in_);
        static_cast<T*>(args_.y)[token * out_ + o] = y;
      }
  }
  /// Rows of quantized weights, in the order of x.
  std::vector<float> dequantized(std::int64_t first, std::int64_t last) const {
    std::vector<float> values((last - first) * in_);
    const auto add = [&]<int... kWeights>(std::integer_sequence<int, kWeights...>) {
      for (std::int64_t row = first; row < last; ++row)
        (...,
         (weights_ == kWeights ? dequantize<kWeights>(row, values.data() + (row - first) * in_) : void()));
    };
    add(std::integer_sequence<int, kWeightsInt8, kWeightsInt4, kWeightsFp8, kWeightsNvfp4, kWeightsMxfp4,
                              kWeightsQ4K, kWeightsQ5K, kWeightsQ6K>());
    return values;
  }
  /// 16 columns at a time, which share a scale in every format.
  template <int kWeights>
  void dequantize(std::int64_t row, float* values) const {
    const auto& args = static_cast<const QuantizedLinearArgs&>(args_);
    const auto* const weight = static_cast<const std::uint8_t*>(args.weight);
    const auto* const bytes = static_cast<const std::uint8_t*>(args.scales);
    const DType scale_dtype = weight_scale_dtype(kWeights, group_);
    float d = 0, dmin = 0;  // of a super-block
    for (std::int64_t first = 0; first < in_; first += 16) {
      const std::int64_t at = scale_index(kWeights, group_, in_, row, first);
      float scale = 0, minimum = 0;
      if constexpr (has_super_blocks(kWeights)) {
        if (first % kSuperColumns == 0) {
          const std::int64_t step = super_step_index(kWeights, in_, row, first);
          d = load(DType::fp16, bytes, step);
          if (has_minima(kWeights)) dmin = load(DType::fp16, bytes, step + 1);
        }
        scale = d * (has_minima(kWeights) ? bytes[2 * at]
                                          : static_cast<std::int8_t>(bytes[2 * at + first / 16 % 2]));
        if (has_minima(kWeights)) minimum = dmin * bytes[2 * at + 1];
      } else {
        scale = static_cast<float>(load(scale_dtype, bytes, at));
        if (kWeights == kWeightsNvfp4) scale *= args.row_scales[row];
      }
      const int zero =
          zero_point_of(kWeights) + (kWeights == kWeightsInt4 && args.zeros ? args.zeros[at] : 0);
      const std::uint8_t* const from = weight + packed_position(kWeights, in_, row, first).byte;
      for (std::int64_t k = 0; k < std::min<std::int64_t>(16, in_ - first); ++k) {
        const auto [byte, shift] = packed_position(kWeights, 16, 0, k);  // from the first of the 16 on
        const int nibble = from[byte] >> shift & 15;
        float value = 0;
        if constexpr (is_fp4(kWeights))
          value = fp4_value(nibble);
        else if constexpr (kWeights == kWeightsFp8)
          value = std::bit_cast<fp8>(from[byte]);
        else
          value = static_cast<float>((weight_bits(kWeights) == 4 ? nibble : from[byte]) - zero);
        values[args.order ? args.order[first + k] : first + k] = value * scale - minimum;
      }
    }
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
      for (std::int64_t o = 0; o < p["out"]; ++o) gemm.compute(o, o + 1, one_by_one);
      gemm.finish();
    });
  };
}

/// A block of weight rows serves all tokens while it is in the cache.
HostFunction blocked(const Problem& p, std::int64_t block, int threads) {
  return [=](const void* raw) {
    with_float_dtype(p.dtype, [&]<class T>() {
      const HostGemm<T> gemm(p, raw);
      const std::int64_t out = p["out"];
      parallel_for(ceil_div(out, block), threads, [&](std::int64_t group) {
        gemm.compute(group * block, std::min(out, (group + 1) * block), [](auto... a) { return dot(a...); });
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
