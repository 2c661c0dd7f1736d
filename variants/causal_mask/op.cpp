// The op causal_mask.
#include <fmt/format.h>

#include "harness/core/error.h"
#include "kernels/causal_mask/args.h"
#include "variants/helpers/lengths.h"
#include "variants/helpers/specs.h"
#include "variants/ops.h"

namespace warptune {

Op causal_mask() {
  return {
      .name = "causal_mask",
      .summary = "1 where a query sees a key (bottom-right causal), else 0",
      .dims = {work_dim({"batch", "sequences"}),
               {"max_q_len", "padded queries"},
               {"max_k_len", "padded keys, context and queries"}},
      .check =
          [](const Problem& p) {
            if (p["max_k_len"] < p["max_q_len"])
              throw InputError(fmt::format(
                  "causal_mask: max_k_len {} is less than max_q_len {}; it counts the queries too",
                  p["max_k_len"], p["max_q_len"]));
          },
      .tensors =
          [](const Problem& p, std::uint64_t seed) {
            const auto q_lens = uneven_lengths(p["batch"], p["max_q_len"], seed);
            std::vector<std::int32_t> k_lens = q_lens;
            for (std::size_t b = 0; b < k_lens.size(); ++b)  // a context of any length that fits
              k_lens[b] += random_bits(seed + 1, b) % (p["max_k_len"] - q_lens[b] + 1);
            k_lens[0] = p["max_k_len"];
            return std::vector<TensorSpec>{
                given_ints("q_lens", {p["batch"]}, q_lens),
                given_ints("k_lens", {p["batch"]}, std::move(k_lens)),
                activation("mask", p.dtype, {p["batch"], p["max_q_len"], p["max_k_len"]}, Role::output),
            };
          },
      .fields = {field("q_lens", &CausalMaskArgs::q_lens), field("k_lens", &CausalMaskArgs::k_lens),
                 field("mask", &CausalMaskArgs::mask), field("batch", &CausalMaskArgs::batch)},
      .cost =
          [](const Problem& p) {
            const double n = p["batch"] * p["max_q_len"] * p["max_k_len"];
            return Cost{.bytes = n * size_of(p.dtype) + 8.0 * p["batch"]};
          },
      .units = [](const Problem& p) { return p["batch"] * p["max_q_len"]; },
      .reference =
          [](const Problem& p, const Inputs& in, std::int64_t row, Expected& out) {
            const std::int64_t b = row / p["max_q_len"], q = row % p["max_q_len"], keys = p["max_k_len"];
            const double q_len = in["q_lens"][b], k_len = in["k_lens"][b];
            std::vector<double> mask(keys);
            for (std::int64_t k = 0; k < keys; ++k) mask[k] = q < q_len && k - q <= k_len - q_len;
            out.put("mask", row * keys, std::move(mask));
          },
      .tolerance = [](const Problem&) { return Tolerance{}; },
  };
}

}  // namespace warptune
