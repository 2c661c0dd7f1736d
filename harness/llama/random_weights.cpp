// Weights without a checkpoint.

#include <cmath>
#include <functional>
#include <numeric>

#include "harness/core/error.h"
#include "harness/core/random.h"
#include "harness/llama/tensor_parallel.h"
#include "harness/llama/weights.h"

namespace warptune {
namespace {

/// How an array of a matrix is stored: units of rows, one after the other, each with its columns in order.
struct Layout {
  std::int64_t unit_rows = 1;                          // rows of a unit
  std::function<std::int64_t(std::int64_t)> elements;  // of a unit with so many columns
};

/// Makes random tensors, each with a seed of its own. Those of ranks are parts of the same whole tensors.
class RandomTensors {
 public:
  RandomTensors(Device& device, DType dtype, std::uint64_t seed)
      : device_(device), dtype_(dtype), seed_(seed) {}

  /// A tensor that all ranks have.
  Buffer uniform(std::int64_t count, double scale) {
    return uniform(dtype_, {{count}, 1}, {.elements = [](std::int64_t) { return 1; }}, scale);
  }
  /// A part of a vector with an element for each row of a matrix.
  Buffer vector(const MatrixSlice& of, double scale, DType dtype) {
    return uniform(dtype, of, {.elements = [](std::int64_t) { return 1; }}, scale);
  }
  Buffer vector(const MatrixSlice& of, double scale) { return vector(of, scale, dtype_); }
  /// Uniform in [-s, s) has variance s^2 / 3: with s = sqrt(3 / in) the outputs have the variance of the
  /// inputs.
  Buffer matrix(const MatrixSlice& of, double gain = 1) {
    return uniform(dtype_, of, {.elements = [](std::int64_t columns) { return columns; }},
                   gain * std::sqrt(3.0 / static_cast<double>(of.columns.stored)));
  }
  /// The same in a format: values are uniform in all bytes, of fp8 up to 1, and zero points in [-8, 8);
  /// scales make the variance, of nvfp4 those of rows.
  Matrix matrix(const WeightFormat& format, const MatrixSlice& of, double gain = 1) {
    if (!format.quantized()) return {.weight = matrix(of, gain)};
    const int weights = format.weights, group = format.group;
    const bool is_fp8 = weights == kWeightsFp8, is_nvfp4 = weights == kWeightsNvfp4;
    const std::int64_t in = of.columns.stored;
    const double range = random_range(weights), mean = 127.5 - zero_point_of(weights);  // of bytes
    double variance = (weight_bits(weights) == 8 ? range * range / 3 : 64 / 3.0) * (format.zeros ? 2 : 1);
    if (is_fp4(weights)) variance = 68.5 / 8;  // of the eight magnitudes
    if (weights == kWeightsQ6K) variance += mean * mean;
    if (is_nvfp4) variance /= 3;                        // its groups have scales up to 1
    if (weights == kWeightsMxfp4) variance *= 3.0 / 7;  // scales are rounded down
    double scale = gain * std::sqrt(3 / (variance * static_cast<double>(in)));
    if (has_minima(weights)) scale = minima_scale(weights, gain / std::sqrt(static_cast<double>(in)));
    if (weights == kWeightsQ6K) scale /= 77;  // RMS of the scales' bytes, of low and of high bytes of fp16
    groups_of(format, of.columns.count);      // throws where they do not divide it
    expect_blocks(format, of);
    const Layout packed{kBlockRows, [=](std::int64_t columns) {
                          return columns == 0 ? 0 : packed_bytes(weights, kBlockRows, columns);
                        }};
    const std::int64_t scale_rows = group == 0 ? 1 : is_fp8 ? kFp8ScaleRows : kBlockRows;
    const Layout scales{scale_rows, [=](std::int64_t columns) {
                          return columns == 0 ? 0 : scale_count(weights, group, scale_rows, columns);
                        }};
    return {.format = format,
            .weight = uniform(is_fp8 ? DType::fp8 : DType::int8, of, packed, range),
            .scales = uniform(scale_dtype(format), scales_of(of, group), scales, is_nvfp4 ? 1 : scale),
            .zeros = format.zeros ? uniform(DType::int8, scales_of(of, group), scales, 8) : Buffer(),
            .order = format.act_order ? shuffled_columns(in) : Buffer(),
            .row_scales = is_nvfp4 ? vector(of, scale, DType::fp32) : Buffer()};
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

  /// `count` zeros. Counts as a random tensor, so that all ranks give the next one the same seed.
  Buffer zeros(std::int64_t count) {
    Buffer buffer = device_.allocate(static_cast<std::size_t>(count) * size_of(dtype_));
    device_.set_bytes(buffer.data(), 0, buffer.bytes(), device_.stream());
    ++made_;
    return buffer;
  }

 private:
  /// The scale of fp16 that gives weights of Q4_K or Q5_K a standard deviation. d, dmin and the words with
  /// the bytes of scales and minima are uniform in it: below 256 of the smallest steps of fp16 it also limits
  /// the bytes.
  static double minima_scale(int weights, double deviation) {
    const double smallest = std::exp2(-24),
                 value = std::sqrt(weights == kWeightsQ4K ? 77.5 : 21717.5);  // RMS of 0 to 15, 0 to 255
    const double with_all_bytes = deviation * 3 / (256 * value);
    if (with_all_bytes >= 256 * smallest) return with_all_bytes;
    return std::sqrt(deviation * 3 * smallest / value);
  }
  /// Without groups the scales of a row are those of all its columns.
  static MatrixSlice scales_of(MatrixSlice of, int group) {
    if (group == 0) of.columns = 1;
    return of;
  }
  /// Throws where a part of a packed matrix does not begin and end between its blocks.
  static void expect_blocks(const WeightFormat& format, const MatrixSlice& of) {
    const std::int64_t columns = std::max(block_columns(format.weights), format.unit_columns()),
                       rows = format.weights == kWeightsFp8 && format.group != 0 ? kFp8ScaleRows : kBlockRows;
    const auto lies_on = [](const Slice& slice, std::int64_t size) {
      return slice.is_whole() || (slice.first % size == 0 && slice.count % size == 0);
    };
    for (const Slice& range : of.rows)
      if ((!of.has_all_rows() && !lies_on(range, rows)) || !lies_on(of.columns, columns))
        throw InputError(
            "random weights of {} are split over ranks at multiples of {} rows and {} columns; "
            "a rank has {} rows and {} columns of a matrix",
            format.str(), rows, columns, range.count, of.columns.count);
    if (format.act_order && !of.columns.is_whole())
      throw InputError("{} has its columns in another order, which ranks cannot split", format.str());
  }
  /// The part of an array of a matrix.
  Buffer uniform(DType dtype, const MatrixSlice& of, const Layout& layout, double scale) {
    const auto units = [&](std::int64_t rows) { return ceil_div(rows, layout.unit_rows); };
    const std::int64_t stride = layout.elements(of.columns.stored), width = layout.elements(of.columns.count);
    const std::int64_t rows = of.row_count();
    Buffer buffer = device_.allocate(static_cast<std::size_t>(units(rows) * width) * size_of(dtype));
    const std::uint64_t seed = seed_ * 0x9e3779b97f4a7c15ull + ++made_;
    std::int64_t done = 0;
    // The ranges of all rows need not lie on units.
    for (const Slice& range : of.has_all_rows() ? std::vector<Slice>{rows} : of.rows) {
      const std::int64_t count = units(range.count) * width;
      device_.fill_random(buffer.as<std::byte>() + static_cast<std::size_t>(done) * size_of(dtype), dtype,
                          count, seed, static_cast<float>(scale),
                          {.first = units(range.first) * stride + layout.elements(of.columns.first),
                           .width = width == stride ? 0 : width,
                           .stride = stride});
      done += count;
    }
    return buffer;
  }

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
  const MatrixSlice embedding{{c.vocab}, c.hidden};
  w.embedding = c.tied_embeddings ? random.matrix(embedding)
                                  : random.uniform(static_cast<std::int64_t>(c.vocab) * c.hidden, 1);
  const LayerSlices slices = layer_slices(c);
  for (int i = 0; i < c.layers; ++i) {
    LayerWeights l;
    l.input_norm = random.ones(c.hidden);
    const LayerFormats formats = c.formats_of(i);
    l.qkv = random.matrix(formats.qk, formats.has_v_apart() ? slices.qk : slices.qkv);
    if (formats.has_v_apart()) l.v = random.matrix(formats.v, slices.v);
    l.o = random.matrix(formats.o, slices.o, branch);
    // One of the ranks adds it.
    const auto bias_of_sum = [&] {
      return c.shard.rank == 0 ? random.uniform(c.hidden, 0.1 * branch) : random.zeros(c.hidden);
    };
    if (c.qkv_bias) l.qkv_bias = random.vector(slices.qkv, 0.1);
    if (c.o_bias) l.o_bias = bias_of_sum();
    if (c.mlp_bias) {
      l.gate_up_bias = random.vector(slices.gate_up, 0.1);
      l.down_bias = bias_of_sum();
    }
    if (c.qk_norm) l.qk_norm = random.ones(2LL * c.head_dim);
    l.attention_norm = random.ones(c.hidden);
    l.gate_up = random.matrix(formats.gate_up, slices.gate_up);
    l.down = random.matrix(formats.down, slices.down, branch);
    w.layers.push_back(std::move(l));
  }
  w.final_norm = random.ones(c.hidden);
  if (!c.tied_embeddings) w.lm_head = random.matrix(c.head_format, head_slice(c));
  device.synchronize();
  return w;
}

}  // namespace warptune
