// The op swiglu. Source: Shazeer, "GLU Variants Improve Transformer", 2020.
#include <cmath>

#include "kernels/swiglu/args.h"
#include "variants/helpers/specs.h"
#include "variants/ops.h"

namespace warptune {

Op swiglu() {
  return {
      .name = "swiglu",
      .summary = "y = silu(gate) * up",
      .dims = {work_dim({"tokens", "rows"}), {"intermediate", "row length of the result"}},
      .tensors =
          [](const Problem& p, std::uint64_t) {
            return std::vector<TensorSpec>{
                activation("gate_up", p.dtype, {p["tokens"], 2 * p["intermediate"]}, Role::input, 4),
                activation("y", p.dtype, {p["tokens"], p["intermediate"]}, Role::output),
            };
          },
      .fields = {field("gate_up", &SwigluArgs::gate_up), field("y", &SwigluArgs::y),
                 field("tokens", &SwigluArgs::tokens)},
      .cost =
          [](const Problem& p) {
            const double n = p["tokens"] * p["intermediate"];
            return Cost{.bytes = 3 * n * size_of(p.dtype), .flops = 5 * n};
          },
      .units = [](const Problem& p) { return p["tokens"]; },
      .reference =
          [](const Problem& p, const Inputs& in, std::int64_t token, Expected& out) {
            const Values x = in["gate_up"];
            const std::int64_t n = p["intermediate"];
            std::vector<double> y(n);
            for (std::int64_t i = 0; i < n; ++i) {
              const double gate = x[2 * token * n + i], up = x[(2 * token + 1) * n + i];
              y[i] = gate / (1 + std::exp(-gate)) * up;
            }
            out.put("y", token * n, std::move(y));
          },
      .tolerance = [](const Problem& p) { return default_tolerance(p.dtype); },
  };
}

}  // namespace warptune
