// The op softmax. Mask elements are so small that half of them round to 0.
#include <cmath>

#include "kernels/softmax/args.h"
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
                {.name = "x", .dtype = p.dtype, .shape = shape, .cache = CacheState::hot, .scale = 8},
                {.name = "mask",
                 .dtype = p.dtype,
                 .shape = {p["batch"], p["q_len"], p["kv_len"]},
                 .cache = CacheState::hot,
                 .scale = smallest(p.dtype)},
                {.name = "y",
                 .dtype = p.dtype,
                 .shape = shape,
                 .role = Role::output,
                 .cache = CacheState::hot},
            };
          },
      .bind =
          [](const Problem& p, std::span<void* const> t, void*) {
            return Args(SoftmaxArgs{.x = t[0],
                                    .mask = p["mask"] ? t[1] : nullptr,
                                    .y = t[2],
                                    .batch = static_cast<int>(p["batch"]),
                                    .scale = kScale});
          },
      .fields = {field("x", &SoftmaxArgs::x), field("mask", &SoftmaxArgs::mask), field("y", &SoftmaxArgs::y),
                 field("batch", &SoftmaxArgs::batch), field("scale", &SoftmaxArgs::scale)},
      .cost =
          [](const Problem& p) {
            const double masks = static_cast<double>(p["batch"] * p["q_len"] * p["kv_len"]),
                         n = masks * static_cast<double>(p["q_heads"]),
                         b = static_cast<double>(size_of(p.dtype));
            return Cost{.bytes = 2 * n * b + (p["mask"] ? masks * b : 0), .flops = 5 * n};
          },
      .units = [](const Problem& p) { return p["batch"] * p["q_heads"] * p["q_len"]; },
      .reference =
          [](const Problem& p, const Inputs& in, std::int64_t row, Expected& out) {
            const Values x = in["x"], mask = in["mask"];
            const std::int64_t keys = p["kv_len"], queries = p["q_len"],
                               mask_row = row / (p["q_heads"] * queries) * queries + row % queries;
            const bool masked = p["mask"] != 0;
            std::vector<double> y(static_cast<std::size_t>(keys));
            double most = -INFINITY, sum = 0;
            for (std::int64_t k = 0; k < keys; ++k) {
              const bool visible = !masked || mask[mask_row * keys + k] != 0;
              y[static_cast<std::size_t>(k)] = visible ? x[row * keys + k] * kScale : -INFINITY;
              most = std::max(most, y[static_cast<std::size_t>(k)]);
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
