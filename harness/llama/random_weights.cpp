// Weights without a checkpoint.
#include <cmath>
#include <numeric>

#include "harness/core/random.h"
#include "harness/llama/weights.h"

namespace warptune {
namespace {

/// Makes random tensors, each with a seed of its own.
class RandomTensors {
 public:
  RandomTensors(Device& device, DType dtype, std::uint64_t seed)
      : device_(device), dtype_(dtype), seed_(seed) {}

  Buffer uniform(std::int64_t count, double scale) { return uniform(dtype_, count, scale); }
  Buffer uniform(DType dtype, std::int64_t count, double scale) {
    Buffer buffer = device_.allocate(static_cast<std::size_t>(count) * size_of(dtype));
    device_.fill_random(buffer.data(), dtype, count, seed_ * 0x9e3779b97f4a7c15ull + ++made_,
                        static_cast<float>(scale));
    return buffer;
  }
  /// Uniform in [-s, s) has variance s^2 / 3: with s = sqrt(3 / in) the outputs have the variance of the
  /// inputs.
  Buffer matrix(std::int64_t out, std::int64_t in, double gain = 1) {
    return uniform(out * in, gain * std::sqrt(3.0 / static_cast<double>(in)));
  }
  /// The same in a format: values are uniform in all bytes, of fp8 up to 1, and zero points in [-8, 8);
  /// scales make the variance, of nvfp4 those of rows.
  Matrix matrix(const WeightFormat& format, std::int64_t out, std::int64_t in, double gain = 1) {
    if (!format.quantized()) return {.weight = matrix(out, in, gain)};
    const bool is_fp8 = format.weights == kWeightsFp8, is_nvfp4 = format.weights == kWeightsNvfp4;
    double variance = std::exp2(2 * weight_bits(format.weights)) / 12 * (format.zeros ? 2 : 1);
    if (is_fp8) variance = 1.0 / 3;
    if (is_fp4(format.weights)) variance = 68.5 / 8;           // of the eight magnitudes
    if (is_nvfp4) variance /= 3;                               // its groups have scales up to 1
    if (format.weights == kWeightsMxfp4) variance *= 3.0 / 7;  // scales are rounded down
    const double scale = gain * std::sqrt(3 / (variance * static_cast<double>(in)));
    groups_of(format, in);  // throws where they do not divide it
    const std::int64_t scales = scale_count(format.weights, format.group, out, in);
    return {.format = format,
            .weight = uniform(is_fp8 ? DType::fp8 : DType::int8, packed_bytes(format.weights, out, in),
                              is_fp8 ? 1 : 128),
            .scales = uniform(scale_dtype(format), scales, is_nvfp4 ? 1 : scale),
            .zeros = format.zeros ? uniform(DType::int8, scales, 8) : Buffer(),
            .order = format.act_order ? shuffled_columns(in) : Buffer(),
            .row_scales = is_nvfp4 ? uniform(DType::fp32, out, scale) : Buffer()};
  }
  /// A permutation of the columns.
  Buffer shuffled_columns(std::int64_t count) {
    std::vector<std::int32_t> order(static_cast<std::size_t>(count));
    std::iota(order.begin(), order.end(), 0);
    const std::uint64_t seed = seed_ * 0x9e3779b97f4a7c15ull + ++made_;
    for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random_bits(seed, i) % i]);
    return uploaded(device_, std::as_bytes(std::span(order)));
  }
  Buffer ones(std::int64_t count) {
    std::vector<std::byte> host(static_cast<std::size_t>(count) * size_of(dtype_));
    for (std::int64_t i = 0; i < count; ++i) store(dtype_, host.data(), i, 1.0);
    return uploaded(device_, host);
  }

 private:
  Device& device_;
  DType dtype_;
  std::uint64_t seed_, made_ = 0;
};

}  // namespace

Weights random_weights(Device& device, const ModelConfig& c, DType dtype, std::uint64_t seed) {
  RandomTensors random(device, dtype, seed);
  // Each layer adds two terms to the residual stream; this keeps their sum near 1.
  const double branch = 1 / std::sqrt(2.0 * c.layers);
  Weights w{.dtype = dtype};
  w.embedding = c.tied_embeddings ? random.matrix(c.vocab, c.hidden)
                                  : random.uniform(static_cast<std::int64_t>(c.vocab) * c.hidden, 1);
  for (int i = 0; i < c.layers; ++i) {
    LayerWeights l;
    l.input_norm = random.ones(c.hidden);
    const LayerFormats formats = c.formats_of(i);
    l.qkv = random.matrix(formats.qkv, c.qkv_width(), c.hidden);
    l.o = random.matrix(formats.o, c.hidden, c.q_width(), branch);
    if (c.qkv_bias) l.qkv_bias = random.uniform(c.qkv_width(), 0.1);
    if (c.o_bias) l.o_bias = random.uniform(c.hidden, 0.1 * branch);
    if (c.mlp_bias) {
      l.gate_up_bias = random.uniform(2LL * c.intermediate, 0.1);
      l.down_bias = random.uniform(c.hidden, 0.1 * branch);
    }
    if (c.qk_norm) l.qk_norm = random.ones(2LL * c.head_dim);
    l.attention_norm = random.ones(c.hidden);
    l.gate_up = random.matrix(formats.gate_up, 2LL * c.intermediate, c.hidden);
    l.down = random.matrix(formats.down, c.hidden, c.intermediate, branch);
    w.layers.push_back(std::move(l));
  }
  w.final_norm = random.ones(c.hidden);
  if (!c.tied_embeddings) w.lm_head = random.matrix(c.head_format, c.vocab, c.hidden);
  device.synchronize();
  return w;
}

}  // namespace warptune
