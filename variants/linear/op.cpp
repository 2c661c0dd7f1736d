// The op linear: the projections of a transformer layer, and the logits.
#include <algorithm>
#include <cmath>

#include "kernels/linear/args.h"
#include "variants/linear/linear.h"

namespace warptune {
namespace {

constexpr std::int64_t kUnitOutputs = 64;  // a unit of verification: one token, this many output rows

}  // namespace

Op linear() {
  return {
      .name = "linear",
      .summary = "y = x * weight^T (+ bias)",
      .dims = {work_dim({"tokens", "rows of x"}),
               {"in", "row length of x and weight"},
               {"out", "rows of weight"},
               {.name = "bias", .doc = "whether a bias is added", .fallback = 0, .labels = {"no", "yes"}}},
      .tensors =
          [](const Problem& p, std::uint64_t) {
            // Keeps y near 1: a power of two near 1/sqrt(in), so that the values use all of their mantissa.
            const float scale = std::exp2(std::round(-0.5f * std::log2(static_cast<float>(p["in"]))));
            std::vector<TensorSpec> specs{
                {.name = "x", .dtype = p.dtype, .shape = {p["tokens"], p["in"]}, .cache = CacheState::hot},
                {.name = "weight", .dtype = p.dtype, .shape = {p["out"], p["in"]}, .scale = scale},
            };
            if (p["bias"] != 0) specs.push_back({.name = "bias", .dtype = p.dtype, .shape = {p["out"]}});
            specs.push_back({.name = "y",
                             .dtype = p.dtype,
                             .shape = {p["tokens"], p["out"]},
                             .role = Role::output,
                             .cache = CacheState::hot});
            return specs;
          },
      .bind =
          [](const Problem& p, std::span<void* const> t, void* workspace) {
            const bool bias = p["bias"] != 0;
            return Args(LinearArgs{.x = t[0],
                                   .weight = t[1],
                                   .bias = bias ? t[2] : nullptr,
                                   .y = t[bias ? 3 : 2],
                                   .workspace = workspace,
                                   .tokens = static_cast<int>(p["tokens"])});
          },
      .cost =
          [](const Problem& p) {
            const auto tokens = static_cast<double>(p["tokens"]), in = static_cast<double>(p["in"]),
                       out = static_cast<double>(p["out"]);
            const double elements = tokens * in + out * in + tokens * out + (p["bias"] != 0 ? out : 0);
            return Cost{.bytes = elements * static_cast<double>(size_of(p.dtype)),
                        .flops = 2 * tokens * in * out};
          },
      .units = [](const Problem& p) { return p["tokens"] * ceil_div(p["out"], kUnitOutputs); },
      .reference =
          [](const Problem& p, const Inputs& inputs, std::int64_t unit, Expected& expected) {
            const std::int64_t in = p["in"], out = p["out"], groups = ceil_div(out, kUnitOutputs);
            const std::int64_t token = unit / groups, first = unit % groups * kUnitOutputs;
            const std::int64_t n = std::min(kUnitOutputs, out - first);
            const Values all_x = inputs["x"], weight = inputs["weight"];
            std::vector<double> x(static_cast<std::size_t>(in)), y(static_cast<std::size_t>(n));
            for (std::int64_t i = 0; i < in; ++i) x[static_cast<std::size_t>(i)] = all_x[token * in + i];
            for (std::int64_t o = 0; o < n; ++o) {
              double sum = p["bias"] != 0 ? inputs["bias"][first + o] : 0.0;
              for (std::int64_t i = 0; i < in; ++i)
                sum += x[static_cast<std::size_t>(i)] * weight[(first + o) * in + i];
              y[static_cast<std::size_t>(o)] = sum;
            }
            expected.put("y", token * out + first, std::move(y));
          },
      .tolerance =
          [](const Problem& p) {
            // The rounding error of an fp32 sum grows with the square root of its length.
            Tolerance t = default_tolerance(p.dtype);
            const double grown = std::sqrt(static_cast<double>(p["in"])) * 0x1p-24;
            t.rel_l2 = std::max(t.rel_l2, grown);
            t.max_rel = std::max(t.max_rel, 4 * grown);
            return t;
          },
  };
}

}  // namespace warptune
