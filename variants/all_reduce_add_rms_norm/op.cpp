// The op all_reduce_add_rms_norm: what follows a GEMM whose rows are split over ranks.
#include "kernels/all_reduce_add_rms_norm/args.h"
#include "variants/helpers/normalize.h"
#include "variants/helpers/ranks.h"
#include "variants/ops.h"

namespace warptune {

Op all_reduce_add_rms_norm() {
  return {
      .name = "all_reduce_add_rms_norm",
      .summary = "residual_out = sum of x over all ranks + residual; y = rms_norm(residual_out) * weight",
      .dims = {work_dim({"tokens", "rows"}), {"hidden", "row length"}, ranks_dim()},
      .check =
          [](const Problem& p) {
            expect_packets(p, "hidden", p["hidden"] * static_cast<std::int64_t>(size_of(p.dtype)));
          },
      .tensors =
          [](const Problem& p, std::uint64_t) {
            const std::vector<std::int64_t> rows = {p["tokens"], p["hidden"]};
            return std::vector{of_all_ranks(activation("x", p.dtype, {p["ranks"], p["tokens"], p["hidden"]})),
                               activation("residual", p.dtype, rows),
                               TensorSpec{.name = "weight", .dtype = p.dtype, .shape = {p["hidden"]}},
                               activation("residual_out", p.dtype, rows, Role::output),
                               activation("y", p.dtype, rows, Role::output)};
          },
      .fields = {field("x", &AllReduceAddRmsNormArgs::x),
                 field("residual", &AllReduceAddRmsNormArgs::residual),
                 field("weight", &AllReduceAddRmsNormArgs::weight),
                 field("residual_out", &AllReduceAddRmsNormArgs::residual_out),
                 field("y", &AllReduceAddRmsNormArgs::y), field("tokens", &AllReduceAddRmsNormArgs::tokens),
                 field("eps", &AllReduceAddRmsNormArgs::eps, kRmsNormEps)},
      .cost =
          [](const Problem& p) {
            const double n = p["tokens"] * p["hidden"], b = size_of(p.dtype);
            return Cost{.bytes = 4 * n * b + p["hidden"] * b, .flops = (5 + p["ranks"]) * n};
          },
      .units = [](const Problem& p) { return p["tokens"]; },
      .reference =
          [](const Problem& p, const Inputs& in, std::int64_t token, Expected& out) {
            const Values x = in["x"], residual = in["residual"];
            const std::int64_t hidden = p["hidden"], first = token * hidden, all = p["tokens"] * hidden;
            std::vector<double> sum(hidden);
            for (std::int64_t i = 0; i < hidden; ++i) {
              const double reduced = round_to(p.dtype, sum_over_ranks(p, x, all, first + i));
              sum[i] = round_to(p.dtype, reduced + residual[first + i]);
            }
            out.put("y", first, normalized_row(sum, in["weight"]));
            out.put("residual_out", first, std::move(sum));
          },
      .tolerance = [](const Problem& p) { return with_long_sum(default_tolerance(p.dtype, 3), p["hidden"]); },
  };
}

}  // namespace warptune
