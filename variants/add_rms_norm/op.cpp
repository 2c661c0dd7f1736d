// The op add_rms_norm. The sum is rounded to dtype before the norm, as in a model without the
// fusion.
#include <cmath>

#include "kernels/add_rms_norm/args.h"
#include "variants/add_rms_norm/add_rms_norm.h"

namespace warptune {

Op add_rms_norm() {
  return {
      .name = "add_rms_norm",
      .summary = "residual_out = x + residual; y = rms_norm(residual_out) * weight",
      .dims = {work_dim({"tokens", "rows"}), {"hidden", "row length"}},
      .tensors =
          [](const Problem& p, std::uint64_t) {
            const auto activation = [&](std::string name, Role role) {
              return TensorSpec{.name = std::move(name),
                                .dtype = p.dtype,
                                .shape = {p["tokens"], p["hidden"]},
                                .role = role,
                                .cache = CacheState::hot};
            };
            return std::vector<TensorSpec>{
                activation("x", Role::input),
                activation("residual", Role::input),
                {.name = "weight", .dtype = p.dtype, .shape = {p["hidden"]}},
                activation("residual_out", Role::output),
                activation("y", Role::output),
            };
          },
      .bind =
          [](const Problem& p, std::span<void* const> t, void*) {
            return Args(AddRmsNormArgs{.x = t[0],
                                       .residual = t[1],
                                       .weight = t[2],
                                       .residual_out = t[3],
                                       .y = t[4],
                                       .tokens = static_cast<int>(p["tokens"]),
                                       .eps = 1e-5f});
          },
      .fields = {field("x", &AddRmsNormArgs::x), field("residual", &AddRmsNormArgs::residual),
                 field("weight", &AddRmsNormArgs::weight),
                 field("residual_out", &AddRmsNormArgs::residual_out), field("y", &AddRmsNormArgs::y),
                 field("tokens", &AddRmsNormArgs::tokens), field("eps", &AddRmsNormArgs::eps)},
      .cost =
          [](const Problem& p) {
            const double n = static_cast<double>(p["tokens"] * p["hidden"]),
                         b = static_cast<double>(size_of(p.dtype));
            return Cost{.bytes = 4 * n * b + static_cast<double>(p["hidden"]) * b, .flops = 5 * n};
          },
      .units = [](const Problem& p) { return p["tokens"]; },
      .reference =
          [](const Problem& p, const Inputs& in, std::int64_t token, Expected& out) {
            const Values x = in["x"], residual = in["residual"], weight = in["weight"];
            const std::int64_t hidden = p["hidden"], first = token * hidden;
            std::vector<double> sum(static_cast<std::size_t>(hidden)), y(sum.size());
            double squares = 0;
            for (std::int64_t i = 0; i < hidden; ++i) {
              const double s = round_to(p.dtype, x[first + i] + residual[first + i]);
              sum[static_cast<std::size_t>(i)] = s;
              squares += s * s;
            }
            const double scale = 1 / std::sqrt(squares / static_cast<double>(hidden) + 1e-5f);
            for (std::size_t i = 0; i < y.size(); ++i)
              y[i] = sum[i] * scale * weight[static_cast<std::int64_t>(i)];
            out.put("residual_out", first, std::move(sum));
            out.put("y", first, std::move(y));
          },
      .tolerance = [](const Problem& p) { return with_long_sum(default_tolerance(p.dtype, 2), p["hidden"]); },
  };
}

}  // namespace warptune
