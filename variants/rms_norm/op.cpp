// The op rms_norm. Source: Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019.
#include <cmath>

#include "kernels/rms_norm/args.h"
#include "variants/rms_norm/rms_norm.h"

namespace warptune {

Op rms_norm() {
  return {
      .name = "rms_norm",
      .summary = "y = x * weight / sqrt(mean(x^2) + eps) over rows",
      .dims = {work_dim({"tokens", "rows"}), {"hidden", "row length"}},
      .tensors =
          [](const Problem& p, std::uint64_t) {
            return std::vector<TensorSpec>{
                {.name = "x",
                 .dtype = p.dtype,
                 .shape = {p["tokens"], p["hidden"]},
                 .cache = CacheState::hot},
                {.name = "weight", .dtype = p.dtype, .shape = {p["hidden"]}},
                {.name = "y",
                 .dtype = p.dtype,
                 .shape = {p["tokens"], p["hidden"]},
                 .role = Role::output,
                 .cache = CacheState::hot},
            };
          },
      .bind =
          [](const Problem& p, std::span<void* const> t, void*) {
            return Args(RmsNormArgs{
                .x = t[0], .weight = t[1], .y = t[2], .tokens = static_cast<int>(p["tokens"]), .eps = 1e-5f});
          },
      .fields = {field("x", &RmsNormArgs::x), field("weight", &RmsNormArgs::weight),
                 field("y", &RmsNormArgs::y), field("tokens", &RmsNormArgs::tokens),
                 field("eps", &RmsNormArgs::eps)},
      .cost =
          [](const Problem& p) {
            const double n = static_cast<double>(p["tokens"] * p["hidden"]),
                         b = static_cast<double>(size_of(p.dtype));
            return Cost{.bytes = 2 * n * b + static_cast<double>(p["hidden"]) * b, .flops = 4 * n};
          },
      .units = [](const Problem& p) { return p["tokens"]; },
      .reference =
          [](const Problem& p, const Inputs& in, std::int64_t token, Expected& out) {
            const Values x = in["x"], weight = in["weight"];
            const std::int64_t hidden = p["hidden"], first = token * hidden;
            double sum = 0;
            for (std::int64_t i = 0; i < hidden; ++i) sum += x[first + i] * x[first + i];
            const double scale = 1 / std::sqrt(sum / static_cast<double>(hidden) + 1e-5f);
            std::vector<double> y(static_cast<std::size_t>(hidden));
            for (std::int64_t i = 0; i < hidden; ++i)
              y[static_cast<std::size_t>(i)] = x[first + i] * scale * weight[i];
            out.put("y", first, std::move(y));
          },
      .tolerance = [](const Problem& p) { return with_long_sum(default_tolerance(p.dtype), p["hidden"]); },
  };
}

}  // namespace warptune
