#include "harness/llama/weight_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "harness/core/assignment.h"
#include "harness/core/brief.h"
#include "harness/core/error.h"
#include "harness/core/text.h"

namespace warptune {
namespace {

constexpr std::array<std::string_view, 9> kNames = {"same",  "int8", "int4", "fp8", "nvfp4",
                                                    "mxfp4", "q4_k", "q6_k", "q5_k"};

}  // namespace

std::string WeightFormat::str() const {
  std::string text(kNames.at(static_cast<std::size_t>(weights)));
  // A group that the format says is omitted; int4 alone has another default than 0.
  if (fixed_group(weights) == 0 && (group != 0 || weights == kWeightsInt4))
    text += fmt::format(":group={}", group);
  if (zeros) text += ":zeros";
  if (act_order) text += ":act_order";
  if (fp8_activations) text += ":activations=fp8";
  return text;
}

WeightFormat parse_weight_format(std::string_view text) {
  const auto fail = [&] {
    throw InputError(
        "'{}' is no format of weights; it must be same, int8, int4, fp8, nvfp4, mxfp4, q4_k, q5_k or q6_k, "
        "with :group=32, 64 or 128 where groups of columns have a scale, fp8 also with :activations=fp8",
        brief(text));
  };
  if (text.ends_with(':')) fail();
  const std::vector<std::string> parts = split(text, ':');
  const auto name = std::ranges::find(kNames, parts[0]);
  if (name == kNames.end()) fail();
  WeightFormat format{.weights = static_cast<int>(name - kNames.begin())};
  bool has_group = false;
  for (const std::string& part : std::span(parts).subspan(1)) {
    if (part == "zeros") {
      format.zeros = true;
    } else if (part == "act_order") {
      format.act_order = true;
    } else if (part == "activations=fp8") {
      format.fp8_activations = true;
    } else if (part == "group=0" || part == "group=32" || part == "group=64" || part == "group=128") {
      format.group = static_cast<int>(whole_number(part.substr(6), "'group' of weights"));
      has_group = true;
    } else {
      fail();
    }
  }
  const int fixed = fixed_group(format.weights);
  if (fixed != 0 && has_group) fail();  // it has one, in its name
  if (fixed != 0) format.group = fixed;
  if (format.weights == kWeightsInt4 && !has_group) format.group = 128;
  if (!format.quantized() && format != WeightFormat{}) fail();
  if (format.weights == kWeightsFp8 && format.group != 0 && format.group != 128)
    throw InputError("'{}' has groups of {}; those of fp8 are 128, blocks of 128 x 128", brief(text),
                     format.group);
  // As the check of op linear.
  if (format.fp8_activations && format.weights != kWeightsFp8)
    throw InputError("'{}' has activations of fp8; they need weights of fp8", brief(text));
  if (format.zeros && format.weights != kWeightsInt4)
    throw InputError("'{}' has zero points; they need int4", brief(text));
  if (format.act_order && (format.weights == kWeightsFp8 || fixed != 0 || format.group == 0))
    throw InputError("'{}' has an order of columns; it needs int4 or int8 and a group", brief(text));
  return format;
}

std::int64_t groups_of(const WeightFormat& format, std::int64_t columns) {
  if (format.group == 0) return 1;
  if (columns % format.unit_columns() != 0)
    throw InputError("weights of {} columns have no {} of {}; it must divide them", columns,
                     has_super_blocks(format.weights) ? "super-blocks" : "groups", format.unit_columns());
  return columns / format.group;
}

Problem with_weights(Problem linear, const WeightFormat& format) {
  groups_of(format, linear["in"]);  // throws where they do not divide it
  const auto set = [&](const char* dim, std::int64_t value, std::string_view label) {
    linear.dims.set(dim, value, std::string(label), value == 0);
  };
  set("weights", format.weights, kNames.at(static_cast<std::size_t>(format.weights)));
  set("group", format.group, "");
  set("zeros", format.zeros ? 1 : 0, format.zeros ? "yes" : "no");
  set("act_order", format.act_order ? 1 : 0, format.act_order ? "yes" : "no");
  const bool rounds = format.fp8_activations && linear["tokens"] > kFewTokens;
  set("activations", rounds ? kActivationsFp8 : kActivationsSame, rounds ? "fp8" : "same");
  return linear;
}

DType scale_dtype(const WeightFormat& format) {
  if (format.weights == kWeightsNvfp4) return DType::ue4m3;
  if (format.weights == kWeightsMxfp4) return DType::ue8m0;
  return format.group == 0 || format.weights == kWeightsFp8 ? DType::fp32 : DType::fp16;
}

double matrix_bytes(const WeightFormat& format, DType dtype, std::int64_t rows, std::int64_t columns) {
  const auto elements = static_cast<double>(rows) * static_cast<double>(columns);
  if (!format.quantized()) return elements * static_cast<double>(size_of(dtype));
  const std::int64_t groups = groups_of(format, columns);
  return elements * weight_bits(format.weights) / 8 +
         static_cast<double>(scale_count(format.weights, format.group, rows, columns)) *
             static_cast<double>(size_of(scale_dtype(format))) +
         (format.weights == kWeightsNvfp4 ? 4.0 * static_cast<double>(rows) : 0) +
         (format.zeros ? static_cast<double>(rows * groups) : 0) +
         (format.act_order ? 4.0 * static_cast<double>(columns) : 0);
}

}  // namespace warptune
