// The op softmax. Mask elements are so small that half of them round to 0.
#include <cmath>

#include "kernels/softmax/args.h"
#include "variants/helpers/specs.h"
#include "variants/ops.h"

namespace warptune {
namespace {

constexpr float kScale = 0.5f;

/// The smallest positive number of a dtype: uniform values up to it round to 0 or to it in size.
float smallest(DType dtype) {
  return dtype == DType::fp32 ? 0x1p-149f : dtype == DType::bf16 ? 0x1p-133f : 0x1p-24f;
}

}  // namespace

Op softmax() {
  return {
      .name = "softmax",
      .summary = "y = softmax(x * scale) over the last dim, where mask is not 0",
      .dims = {work_dim({"batch", "sequences"}),
               parallel_dim({"q_heads", "query heads"}),
               work_dim({"q_len", "queries per sequence"}),
               work_dim({"kv_len", "keys, the row length"}),
               {"mask", "whether a mask is given", 0, {"none", "given"}}},
      .tensors =
          [](const Problem& p, std::uint64_t) {
            const std::vector<std::int64_t> shape = {p["batch"], p["q_heads"], p["q_len"], p["kv_len"]};
            return std::vector<TensorSpec>{
                activation("x", p.dtype, shape, Role::input, 8),
                activation("mask", p.dtype, {p["batch"], p["q_len"], p["kv_len"]}, Role::input,
                           smallest(p.dtype)),
                activation("y", p.dtype, shape, Role::output),
            };
          },
      .fields = {field("x", &SoftmaxArgs::x),
                 field("mask", &SoftmaxArgs::mask,
                       [](const ArgsSource& s) { return s.problem["mask"] ? s.tensor("mask") : nullptr; }),
                 field("y", &SoftmaxArgs::y), field("batch", &SoftmaxArgs::batch),
                 field("scale", &SoftmaxArgs::scale, kScale)},
      .cost =
          [](const Problem& p) {
            const double masks = p["batch"] * p["q_len"] * p["kv_len"], n = masks * p["q_heads"],
                         b = size_of(p.dtype);
            return Cost{.bytes = 2 * n * b + (p["mask"] ? masks * b : 0), .flops = 5 * n};
          },
      .units = [](const Problem& p) { return p["batch"] * p["q_heads"] * p["q_len"]; },
      .reference =
          [](const Problem& p, const Inputs& in, std::int64_t row, Expected& out) {
            const Values x = in["x"], mask = in["mask"];
            const std::int64_t keys = p["kv_len"], queries = p["q_len"],
                               mask_row = row / (p["q_heads"] * queries) * queries + row % queries;
            const bool masked = p["mask"] != 0;
            std::vector<double> y(keys);
            double most = -INFINITY, sum = 0;
            for (std::int64_t k = 0; k < keys; ++k) {
              const bool visible = !masked || mask[mask_row * keys + k] != 0;
              y[k] = visible ? x[row * keys + k] * kScale : -INFINITY;
              most = std::max(most, y[k]);
            }
            for (double& v : y) sum += v = v == -INFINITY ? 0 : std::exp(v - most);
            if (sum > 0)
              for (double& v : y) v /= sum;
            out.put("y", row * keys, std::move(y));
          },
      .tolerance = [](const Problem& p) { return with_long_sum(default_tolerance(p.dtype), p["kv_len"]); },
  };
}

}  // namespace warptune
