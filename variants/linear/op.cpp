// The op linear: the projections of a transformer layer, and the logits.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "harness/core/error.h"
#include "harness/core/random.h"
#include "kernels/linear/args.h"
#include "kernels/linear/packed_weights.h"
#include "variants/argmax/index_of_largest.h"
#include "variants/helpers/specs.h"
#include "variants/linear/linear.h"
#include "variants/linear/operands.h"

namespace warptune {
namespace {

constexpr std::int64_t kUnitOutputs = 64;  // a unit of verification: one token, this many output rows
constexpr float kEps = 1e-5f;
/// The values of dim `weights` (kernels/linear/packed_weights.h).
constexpr const char* kFormats[] = {"same", "int8", "int4", "fp8", "nvfp4", "mxfp4", "q4_k", "q6_k", "q5_k"};

/// Rows of weight.
std::int64_t weight_rows(const Problem& p) {
  return p["epilogue"] == kEpilogueSwiglu ? 2 * p["out"] : p["out"];
}

bool takes_squares(const Problem& p) { return p["prologue"] == kPrologueRmsScale; }
bool leaves_squares(const Problem& p) { return p["epilogue"] == kEpilogueAddRms; }
bool adds_residual(const Problem& p) { return p["epilogue"] == kEpilogueAdd || leaves_squares(p); }

/// Rounds a row to e4m3 times a scale, as kernels do it (kernels/linear/packed_weights.h).
void quantize_row(std::vector<double>& row) {
  float largest = 0;
  for (const double value : row) largest = std::max(largest, std::abs(static_cast<float>(value)));
  const float scale = activation_scale(largest), inverse = 1 / scale;
  for (double& value : row) value = static_cast<double>(fp8(static_cast<float>(value) * inverse)) * scale;
}

/// The row of x that is multiplied: normalized or quantized where the problem says so.
std::vector<double> input_row(const Problem& p, const Inputs& inputs, std::int64_t token) {
  const std::int64_t in = p["in"];
  const Values x = inputs["x"];
  std::vector<double> row(in);
  for (std::int64_t i = 0; i < in; ++i) row[i] = x[token * in + i];
  if (p["activations"] == kActivationsFp8) quantize_row(row);
  if (p["prologue"] != kPrologueRmsNorm) return row;
  double squares = 0;
  for (const double value : row) squares += value * value;
  const double scale = 1 / std::sqrt(squares / in + kEps);
  const Values weight = inputs["norm_weight"];
  for (std::int64_t i = 0; i < in; ++i) row[i] *= scale * weight[i];
  return row;
}

/// The weights as numbers, where they are quantized the products of values and scales.
class Weights {
 public:
  Weights(const Problem& p, const Inputs& inputs)
      : in_(p["in"]),
        weights_(static_cast<int>(p["weights"])),
        group_(static_cast<int>(p["group"])),
        weight_(inputs["weight"]),
        scales_(inputs[weights_ == kWeightsSame ? "weight" : "scales"]) {
    if (weights_ == kWeightsNvfp4) row_scales_ = inputs["row_scales"];
    if (p["zeros"] != 0) zeros_ = inputs["zeros"];
    if (p["act_order"] != 0) order_ = inputs["order"];
  }

  double dot(std::span<const double> x, std::int64_t row) const {
    double sum = 0;
    const std::int64_t columns = group_ == 0 ? in_ : group_;
    for (std::int64_t begin = 0; begin < in_; begin += columns) {
      const Scaling group = scaling(row, begin);
      for (std::int64_t i = begin; i < begin + columns; ++i)
        sum += x[order_ ? static_cast<std::int64_t>((*order_)[i]) : i] *
               (group.factor * (stored(row, i) - group.zero) - group.offset);
    }
    return sum;
  }

 private:
  /// What a group of columns of a row has in common.
  struct Scaling {
    double factor = 1, zero = 0, offset = 0;
  };
  Scaling scaling(std::int64_t row, std::int64_t column) const {
    if (weights_ == kWeightsSame) return {};
    const std::int64_t at = scale_index(weights_, group_, in_, row, column);
    if (has_super_blocks(weights_)) {
      const int pair = std::bit_cast<std::uint16_t>(static_cast<fp16>(static_cast<float>(scales_[at])));
      const std::int64_t steps = super_step_index(weights_, in_, row, column);
      if (weights_ == kWeightsQ6K)
        return {.factor = scales_[steps] * static_cast<std::int8_t>(pair >> column / group_ % 2 * 8),
                .zero = static_cast<double>(zero_point_of(weights_))};
      return {.factor = scales_[steps] * (pair & 255), .offset = scales_[steps + 1] * (pair >> 8)};
    }
    const double zero = zero_point_of(weights_) + (zeros_ ? (*zeros_)[at] : 0);
    return {.factor = scales_[at] * (row_scales_ ? (*row_scales_)[row] : 1), .zero = zero};
  }
  double stored(std::int64_t row, std::int64_t i) const {
    if (weights_ == kWeightsSame) return weight_[row * in_ + i];
    const PackedPosition at = packed_position(weights_, in_, row, i);
    if (weights_ == kWeightsFp8) return weight_[at.byte];
    const int byte = static_cast<int>(weight_[at.byte]) & 0xff;
    if (weight_bits(weights_) == 8) return byte;
    const int nibble = byte >> at.shift & 15;
    return is_fp4(weights_) ? fp4_value(nibble) : nibble;
  }

  std::int64_t in_;
  int weights_, group_;
  Values weight_, scales_;  // scales: only of quantized weights
  std::optional<Values> row_scales_, zeros_, order_;
};

/// A permutation of the columns.
std::vector<std::int32_t> shuffled_columns(std::int64_t in, std::uint64_t seed) {
  std::vector<std::int32_t> order(in);
  std::iota(order.begin(), order.end(), 0);
  for (std::int64_t i = in - 1; i > 0; --i) std::swap(order[i], order[random_bits(seed, i) % (i + 1)]);
  return order;
}

/// The tensors of quantized weights, near 1 / sqrt(in) as `scale` is.
void add_quantized(std::vector<TensorSpec>& specs, const Problem& p, float scale, std::uint64_t seed) {
  const int weights = static_cast<int>(p["weights"]);
  const std::int64_t rows = weight_rows(p), in = p["in"];
  const int group = static_cast<int>(p["group"]);
  const bool is_fp8 = weights == kWeightsFp8;
  const float largest = random_range(weights);
  specs.push_back({.name = "weight",
                   .dtype = is_fp8 ? DType::fp8 : DType::int8,
                   .shape = {packed_bytes(weights, rows, in)},
                   .scale = largest});
  // Those of groups of nvfp4 are up to 1, some of them subnormal; those of rows have the size. The bytes of
  // super-blocks are those of such values too, up to 255 times d, or 128.
  const float scales = scale * 2 /
                       (has_super_blocks(weights)   ? (weight_bits(weights) == 8 ? 4096 : 1024)
                        : is_fp4(weights)           ? 2
                        : weight_bits(weights) == 4 ? 8
                                                    : largest);
  const bool is_nvfp4 = weights == kWeightsNvfp4;
  specs.push_back({.name = "scales",
                   .dtype = weight_scale_dtype(weights, group),
                   .shape = {scale_count(weights, group, rows, in)},
                   .scale = is_nvfp4 ? 1 : scales});
  if (is_nvfp4) specs.push_back({.name = "row_scales", .shape = {rows}, .scale = scales});
  if (p["zeros"] != 0)
    specs.push_back({.name = "zeros",
                     .dtype = DType::int8,
                     .shape = {scale_count(weights, group, rows, in)},
                     .scale = 8});
  if (p["act_order"] != 0) specs.push_back(given_ints("order", {in}, shuffled_columns(in, seed)));
}

/// 1 / RMS of the row whose squares a problem is given, else 1.
double scale_of(const Problem& p, const Inputs& inputs, std::int64_t token) {
  if (!takes_squares(p)) return 1;
  const std::int64_t groups = p["in"] / kSquaresGroup;
  const Values squares = inputs["squares"];
  double sum = 0;
  for (std::int64_t i = 0; i < groups; ++i) sum += squares[token * groups + i];
  return 1 / std::sqrt(sum / p["in"] + kEps);
}

/// Puts what kEpilogueAddRms leaves of outputs y from index `first` of all, row index `o` on.
void put_scaled(const Inputs& inputs, Expected& expected, std::span<const double> y, std::int64_t first,
                std::int64_t o) {
  const Values weight = inputs["norm_weight"];
  std::vector<double> scaled, squares(y.size() / kSquaresGroup);
  for (std::size_t i = 0; i < y.size(); ++i) {
    scaled.push_back(y[i] * weight[o + i]);
    squares[i / kSquaresGroup] += y[i] * y[i];
  }
  expected.put("scaled", first, std::move(scaled));
  expected.put("squares_out", first / kSquaresGroup, std::move(squares));
}

/// Sums of squares as those of rows near 1.
std::vector<float> random_squares(std::int64_t count, std::uint64_t seed) {
  std::vector<float> squares;
  for (std::int64_t i = 0; i < count; ++i)
    squares.push_back(0.5f * kSquaresGroup + random_bits(seed, i) % 1024 / 64.0f);
  return squares;
}

/// The weights once, with scales, zero points and the order of columns; padding does not count.
double bytes_of_weights(const Problem& p) {
  const double rows = weight_rows(p), in = p["in"], group = p["group"];
  if (p["weights"] == kWeightsSame) return rows * in * static_cast<double>(size_of(p.dtype));
  const int weights = static_cast<int>(p["weights"]);
  const double rows_of_scale = weights == kWeightsFp8 && group != 0 ? kFp8ScaleRows : 1,
               of_row = has_super_blocks(weights) ? in / kSuperColumns * super_words(weights) / kBlockRows
                        : group == 0              ? 1
                                                  : in / group,
               scales = std::ceil(rows / rows_of_scale) * of_row *
                        static_cast<double>(size_of(weight_scale_dtype(weights, p["group"])));
  return rows * in * weight_bits(weights) / 8 + scales + (weights == kWeightsNvfp4 ? 4 * rows : 0) +
         (p["zeros"] != 0 ? rows * (group == 0 ? 1 : in / group) : 0) + (p["act_order"] != 0 ? 4 * in : 0);
}

/// A check of the dims that describe quantized weights.
void check_quantized(const Problem& p) {
  const std::int64_t weights = p["weights"], group = p["group"];
  if (p["activations"] != kActivationsSame && (weights != kWeightsFp8 || p["prologue"] != kPrologueNone))
    throw InputError("activations=fp8 needs weights=fp8 and prologue=none");
  if (weights == kWeightsSame) {
    if (group != 0 || p["zeros"] != 0 || p["act_order"] != 0)
      throw InputError("group, zeros and act_order are for quantized weights (weights=int4)");
    return;
  }
  const int fixed = fixed_group(static_cast<int>(weights));
  if (fixed != 0 && group != fixed)
    throw InputError(
        fmt::format("weights={} has groups of {} columns, not group={}", kFormats[weights], fixed, group));
  if (has_super_blocks(static_cast<int>(weights)) && p["in"] % kSuperColumns != 0)
    throw InputError(fmt::format("weights={} needs in as a multiple of {}, not {}", kFormats[weights],
                                 kSuperColumns, p["in"]));
  if (fixed == 0 && group != 0 && group != 32 && group != 64 && group != 128)
    throw InputError(fmt::format("group is 32, 64, 128 or 0, the whole row, not {}", group));
  if (group != 0 && p["in"] % group != 0)
    throw InputError(fmt::format("group={} does not divide in={}", group, p["in"]));
  if (weights == kWeightsFp8 && group != 0 && group != 128)
    throw InputError(
        fmt::format("weights=fp8 take a scale per row (group=0) or per block of 128 x 128 "
                    "(group=128), not group={}",
                    group));
  if (p["zeros"] != 0 && weights != kWeightsInt4) throw InputError("zeros=yes needs weights=int4");
  if (p["act_order"] != 0 && (weights == kWeightsFp8 || fixed != 0 || group == 0))
    throw InputError("act_order=yes needs weights=int4 or int8 and a group");
}

double silu(double x) { return x / (1 + std::exp(-x)); }

/// The ids of epilogue argmax. Near the maximum the order of fp32 sums decides, so they are those of y as it
/// was written; y has a reference of its own.
TensorSpec argmax_spec(const Problem& p) {
  TensorSpec ids = activation("ids", DType::int32, {p["tokens"]}, Role::output);
  ids.derive = [tokens = p["tokens"], out = p["out"]](const ReadOutput& read) {
    std::vector<double> largest;
    for (std::int64_t t = 0; t < tokens; ++t)
      largest.push_back(index_of_largest(read("y", t * out, out).data(), 0, out));
    return largest;
  };
  return ids;
}

}  // namespace

DType weight_scale_dtype(int weights, std::int64_t group) {
  if (weights == kWeightsNvfp4) return DType::ue4m3;
  if (weights == kWeightsMxfp4) return DType::ue8m0;
  return group == 0 || weights == kWeightsFp8 ? DType::fp32 : DType::fp16;
}

Op linear() {
  return {
      .name = "linear",
      .summary = "y = x * weight^T (+ bias), with RMSNorm before and a residual, SwiGLU or argmax after",
      .dims = {work_dim({"tokens", "rows of x"}),
               {"in", "row length of x and weight"},
               {"out", "rows of weight"},
               {.name = "bias", .doc = "whether a bias is added", .fallback = 0, .labels = kNoYes},
               {.name = "prologue",
                .doc = "what happens first: RMSNorm of x, with a weight of its own, or only its scale, of "
                       "squares that a GEMM with epilogue=add_rms left",
                .fallback = 0,
                .labels = {"none", "rms_norm", "rms_scale"},
                .optional = true},
               {.name = "epilogue",
                .doc = "what happens to the sums: a residual is added, SwiGLU of two halves of weight, the "
                       "index of the largest of a row is also written, or a residual is added and what the "
                       "next GEMM's RMSNorm needs is also written",
                .fallback = 0,
                .labels = {"none", "add", "swiglu", "argmax", "add_rms"},
                .optional = true},
               feature("weights",
                       "how the weights are stored: as x, or quantized, int8, int4, fp8 (e4m3), nvfp4 or "
                       "mxfp4 (e2m1), or q4_k, q5_k or q6_k (Q4_K, Q5_K and Q6_K of llama.cpp), and packed "
                       "(kernels/linear/packed_weights.h)",
                       {std::begin(kFormats), std::end(kFormats)}),
               feature("group",
                       "columns of a row that share a scale: 32, 64 or 128, of fp8 blocks of 128 x 128, of "
                       "nvfp4 and q6_k 16, of mxfp4, q4_k and q5_k 32; 0: the whole row"),
               feature("zeros", "whether groups have zero points", kNoYes),
               feature("act_order", "whether x is read in an order of its own (GPTQ's desc_act)", kNoYes),
               feature("activations",
                       "whether rows of x are rounded to fp8 (e4m3) with a scale each, for fp8 tensor cores",
                       {"same", "fp8"})},
      .check =
          [](const Problem& p) {
            check_quantized(p);
            if (p["epilogue"] == kEpilogueSwiglu && p["bias"] != 0)
              throw InputError("epilogue=swiglu takes no bias");
            if ((takes_squares(p) || leaves_squares(p)) && p.dtype == DType::fp16)
              throw InputError(
                  "prologue=rms_scale and epilogue=add_rms need bf16 or fp32: x times the norm's weight, "
                  "before its scale, may exceed fp16");
            if (takes_squares(p) && p["in"] % kSquaresGroup != 0)
              throw InputError(fmt::format("prologue=rms_scale needs in as a multiple of {}, not {}",
                                           kSquaresGroup, p["in"]));
            if (leaves_squares(p) && p["out"] % kSquaresGroup != 0)
              throw InputError(fmt::format("epilogue=add_rms needs out as a multiple of {}, not {}",
                                           kSquaresGroup, p["out"]));
          },
      .tensors =
          [](const Problem& p, std::uint64_t seed) {
            // Keeps y near 1: a power of two near 1/sqrt(in), so that the values use all of their mantissa.
            const float scale = std::exp2(std::round(-0.5f * std::log2(static_cast<float>(p["in"]))));
            std::vector<TensorSpec> specs{activation("x", p.dtype, {p["tokens"], p["in"]})};
            if (p["weights"] == kWeightsSame)
              specs.push_back(
                  {.name = "weight", .dtype = p.dtype, .shape = {weight_rows(p), p["in"]}, .scale = scale});
            else
              add_quantized(specs, p, scale, seed);
            if (p["bias"] != 0) specs.push_back({.name = "bias", .dtype = p.dtype, .shape = {p["out"]}});
            if (p["prologue"] == kPrologueRmsNorm)
              specs.push_back({.name = "norm_weight", .dtype = p.dtype, .shape = {p["in"]}});
            if (takes_squares(p)) {
              const std::int64_t groups = p["in"] / kSquaresGroup;
              specs.push_back({.name = "squares",
                               .shape = {p["tokens"], groups},
                               .cache = CacheState::hot,
                               .floats = random_squares(p["tokens"] * groups, seed)});
            }
            const auto output = [&](const char* name, DType dtype, std::int64_t width) {
              return activation(name, dtype, {p["tokens"], width}, Role::output);
            };
            if (adds_residual(p)) specs.push_back(activation("residual", p.dtype, {p["tokens"], p["out"]}));
            if (leaves_squares(p))
              specs.push_back({.name = "norm_weight", .dtype = p.dtype, .shape = {p["out"]}});
            specs.push_back(output("y", p.dtype, p["out"]));
            if (leaves_squares(p)) {
              specs.push_back(output("scaled", p.dtype, p["out"]));
              specs.push_back(output("squares_out", DType::fp32, p["out"] / kSquaresGroup));
            }
            if (p["epilogue"] == kEpilogueArgmax) specs.push_back(argmax_spec(p));
            return specs;
          },
      .fields = {field("x", &LinearArgs::x),
                 field("weight", &LinearArgs::weight),
                 field("bias", &LinearArgs::bias),
                 field("y", &LinearArgs::y),
                 field("workspace", &LinearArgs::workspace),
                 field("tokens", &LinearArgs::tokens),
                 field("norm_weight", &FusedLinearArgs::norm_weight),
                 field("residual", &FusedLinearArgs::residual),
                 field("eps", &FusedLinearArgs::eps, kEps),
                 field("ids", &ArgmaxLinearArgs::ids),
                 field("squares", &SplitNormLinearArgs::squares),
                 field("scaled", &SplitNormLinearArgs::scaled),
                 field("squares_out", &SplitNormLinearArgs::squares_out),
                 field("next_weight", &PrefetchLinearArgs::next_weight, nullptr),
                 field("next_rows", &PrefetchLinearArgs::next_rows, 0),
                 field("next_row_bytes", &PrefetchLinearArgs::next_row_bytes, 0),
                 field("row_scales", &QuantizedLinearArgs::row_scales),
                 field("scales", &QuantizedLinearArgs::scales),
                 field("zeros", &QuantizedLinearArgs::zeros),
                 field("order", &QuantizedLinearArgs::order)},
      .args_bytes =
          [](const Problem& p) {
            return p["weights"] == kWeightsSame ? sizeof(PrefetchLinearArgs) : sizeof(QuantizedLinearArgs);
          },
      .cost =
          [](const Problem& p) {
            const double tokens = p["tokens"], in = p["in"], out = p["out"], rows = weight_rows(p);
            const double elements = tokens * in + tokens * out + (p["bias"] != 0 ? out : 0) +
                                    (p["prologue"] == kPrologueRmsNorm ? in : 0) +
                                    (adds_residual(p) ? tokens * out : 0) +
                                    (leaves_squares(p) ? (tokens + 1) * out : 0);
            const double words = (p["epilogue"] == kEpilogueArgmax ? tokens : 0) +
                                 (takes_squares(p) ? tokens * in / kSquaresGroup : 0) +
                                 (leaves_squares(p) ? tokens * out / kSquaresGroup : 0);
            return Cost{.bytes = elements * size_of(p.dtype) + 4 * words + bytes_of_weights(p),
                        .flops = 2 * tokens * in * rows,
                        .fp8_products = p["activations"] == kActivationsFp8};
          },
      .units = [](const Problem& p) { return p["tokens"] * ceil_div(p["out"], kUnitOutputs); },
      .reference =
          [](const Problem& p, const Inputs& inputs, std::int64_t unit, Expected& expected) {
            const std::int64_t out = p["out"], groups = ceil_div(out, kUnitOutputs);
            const std::int64_t token = unit / groups, first = unit % groups * kUnitOutputs;
            const std::int64_t n = std::min(kUnitOutputs, out - first);
            const Weights weights(p, inputs);
            const std::vector<double> x = input_row(p, inputs, token);
            const double scale = scale_of(p, inputs, token);
            std::vector<double> y(n);
            for (std::int64_t i = 0; i < n; ++i) {
              const std::int64_t o = first + i;
              double sum = scale * weights.dot(x, o);
              if (p["bias"] != 0) sum += inputs["bias"][o];
              if (adds_residual(p)) sum += inputs["residual"][token * out + o];
              if (p["epilogue"] == kEpilogueSwiglu) sum = silu(sum) * scale * weights.dot(x, out + o);
              y[i] = sum;
            }
            if (leaves_squares(p)) put_scaled(inputs, expected, y, token * out + first, first);
            expected.put("y", token * out + first, std::move(y));
          },
      .tolerance =
          [](const Problem& p) {
            // A normalized x may be rounded to dtype, and so may weights times the scales of groups; what
            // follows from y is that of a rounded y.
            const int roundings = 1 + (p["prologue"] == kPrologueRmsNorm || leaves_squares(p)) +
                                  (p["weights"] != kWeightsSame && p["group"] != 0);
            return with_long_sum(default_tolerance(p.dtype, roundings), p["in"]);
          },
  };
}

}  // namespace warptune
