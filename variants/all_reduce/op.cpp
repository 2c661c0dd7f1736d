// The op all_reduce: a sum over the ranks of a group.
#include "kernels/all_reduce/args.h"
#include "variants/helpers/ranks.h"
#include "variants/ops.h"

namespace warptune {
namespace {

constexpr std::int64_t kUnit = 256;  // elements of a part that the reference computes alone

std::int64_t elements_of(const Problem& p) {
  return p["bytes"] / static_cast<std::int64_t>(size_of(p.dtype));
}

}  // namespace

Op all_reduce() {
  return {
      .name = "all_reduce",
      .summary = "y = sum of x over all ranks, the same bits on each",
      .dims = {work_dim({.name = "bytes", .doc = "size of x, a multiple of 16", .min = 16}), ranks_dim()},
      .check = [](const Problem& p) { expect_packets(p, "bytes", p["bytes"]); },
      .tensors =
          [](const Problem& p, std::uint64_t) {
            return std::vector{of_all_ranks(activation("x", p.dtype, {p["ranks"], elements_of(p)})),
                               activation("y", p.dtype, {elements_of(p)}, Role::output)};
          },
      .fields = {field("x", &AllReduceArgs::x), field("y", &AllReduceArgs::y)},
      .cost =
          [](const Problem& p) {
            return Cost{.bytes = 2.0 * p["bytes"], .flops = double(p["ranks"]) * elements_of(p)};
          },
      .units = [](const Problem& p) { return ceil_div(elements_of(p), kUnit); },
      .reference =
          [](const Problem& p, const Inputs& in, std::int64_t unit, Expected& out) {
            const Values x = in["x"];
            const std::int64_t first = unit * kUnit, count = std::min(kUnit, elements_of(p) - first);
            std::vector<double> sum(count);
            for (std::int64_t i = 0; i < count; ++i) sum[i] = sum_over_ranks(p, x, elements_of(p), first + i);
            out.put("y", first, std::move(sum));
          },
      .tolerance = [](const Problem& p) { return default_tolerance(p.dtype); },
  };
}

}  // namespace warptune
