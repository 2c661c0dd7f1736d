// The op add_rms_norm. The sum is rounded to dtype before the norm, as in a model without the
// fusion.
#include "kernels/add_rms_norm/args.h"
#include "variants/helpers/normalize.h"
#include "variants/helpers/specs.h"
#include "variants/ops.h"

namespace warptune {

Op add_rms_norm() {
  return {
      .name = "add_rms_norm",
      .summary = "residual_out = x + residual; y = rms_norm(residual_out) * weight",
      .dims = {work_dim({"tokens", "rows"}), {"hidden", "row length"}},
      .tensors =
          [](const Problem& p, std::uint64_t) {
            const std::vector<std::int64_t> rows = {p["tokens"], p["hidden"]};
            return std::vector{activation("x", p.dtype, rows), activation("residual", p.dtype, rows),
                               TensorSpec{.name = "weight", .dtype = p.dtype, .shape = {p["hidden"]}},
                               activation("residual_out", p.dtype, rows, Role::output),
                               activation("y", p.dtype, rows, Role::output)};
          },
      .fields = {field("x", &AddRmsNormArgs::x), field("residual", &AddRmsNormArgs::residual),
                 field("weight", &AddRmsNormArgs::weight),
                 field("residual_out", &AddRmsNormArgs::residual_out), field("y", &AddRmsNormArgs::y),
                 field("tokens", &AddRmsNormArgs::tokens), field("eps", &AddRmsNormArgs::eps, kRmsNormEps)},
      .cost =
          [](const Problem& p) {
            const double n = p["tokens"] * p["hidden"], b = size_of(p.dtype);
            return Cost{.bytes = 4 * n * b + p["hidden"] * b, .flops = 5 * n};
          },
      .units = [](const Problem& p) { return p["tokens"]; },
      .reference =
          [](const Problem& p, const Inputs& in, std::int64_t token, Expected& out) {
            const Values residual = in["residual"];
            const std::int64_t hidden = p["hidden"], first = token * hidden;
            std::vector<double> sum = row_of(in["x"], token, hidden);
            for (std::int64_t i = 0; i < hidden; ++i)
              sum[i] = round_to(p.dtype, sum[i] + residual[first + i]);
            out.put("y", first, normalized_row(sum, in["weight"]));
            out.put("residual_out", first, std::move(sum));
          },
      .tolerance = [](const Problem& p) { return with_long_sum(default_tolerance(p.dtype, 2), p["hidden"]); },
  };
}

}  // namespace warptune
