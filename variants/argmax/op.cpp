// The op argmax: greedy sampling.
#include "kernels/argmax/args.h"
#include "variants/argmax/index_of_largest.h"
#include "variants/helpers/sampling.h"
#include "variants/ops.h"

namespace warptune {

Op argmax() {
  return {
      .name = "argmax",
      .summary =
          "the index of the largest logit of each row, where NaN is the largest; of equals, the lowest",
      .dims = {work_dim({"batch", "rows"}), {"vocab", "logits per row"}},
      .tensors =
          [](const Problem& p, std::uint64_t) {
            return std::vector<TensorSpec>{
                logits_spec(p),
                ids_spec(p),
            };
          },
      .fields = {field("logits", &ArgmaxArgs::logits), field("ids", &ArgmaxArgs::ids),
                 field("workspace", &ArgmaxArgs::workspace), field("batch", &ArgmaxArgs::batch)},
      .cost = [](const Problem& p) { return sampling_cost(p); },
      .units = [](const Problem& p) { return p["batch"]; },
      .reference =
          [](const Problem& p, const Inputs& in, std::int64_t row, Expected& out) {
            const Values logits = in["logits"];
            const std::int64_t vocab = p["vocab"];
            double best = 0, most = logits[row * vocab];
            for (std::int64_t i = 1; i < vocab; ++i)
              if (const double x = logits[row * vocab + i]; ranks_above(x, most)) {
                most = x;
                best = i;
              }
            out.put("ids", row, {best});
          },
      .tolerance = [](const Problem&) { return default_tolerance(DType::int32); },
  };
}

}  // namespace warptune
