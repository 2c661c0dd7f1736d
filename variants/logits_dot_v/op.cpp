// The op logits_dot_v: the P.V of decode attention alone, to compare its implementations.
// Source: Vaswani et al., "Attention Is All You Need", 2017; Ainslie et al., "GQA", 2023.
#include <fmt/format.h>

#include "harness/core/error.h"
#include "kernels/logits_dot_v/args.h"
#include "variants/helpers/kv_cache.h"
#include "variants/helpers/lengths.h"
#include "variants/helpers/specs.h"
#include "variants/ops.h"

namespace warptune {
namespace {

/// All equal to the longest; or from the longest down to one key, with a finished sequence from three on.
std::vector<std::int32_t> lengths_of(const Problem& p, std::uint64_t seed) {
  const std::int64_t batch = p["batch"];
  if (p["uneven"] == 0) return std::vector<std::int32_t>(batch, p["context"]);
  if (batch < 3) return uneven_lengths(batch, p["context"], seed);
  auto lengths = uneven_lengths(batch - 1, p["context"], seed);
  lengths.insert(lengths.begin() + seed % batch, 0);
  return lengths;
}

std::vector<TensorSpec> tensors(const Problem& p, std::uint64_t seed) {
  const std::int64_t batch = p["batch"], heads = p["q_heads"], context = p["context"], d = p["head_dim"];
  return {
      activation("logits", p.dtype, {batch, heads, context}),
      {.name = "v_cache", .dtype = p.dtype, .shape = {batch, p["kv_heads"], context, d}},
      given_ints("lengths", {batch}, lengths_of(p, seed)),
      activation("out", p.dtype, {batch, heads, d}, Role::output),
  };
}

Cost cost(const Problem& p) {
  const double b = size_of(p.dtype), d = p["head_dim"], heads = p["q_heads"], kv_heads = p["kv_heads"];
  Cost c;
  for (const std::int32_t length : lengths_of(p, 0)) {
    c.bytes += length * (heads + kv_heads * d) * b + heads * d * b + 4;
    c.flops += 2.0 * length * d * heads;
  }
  return c;
}

/// A unit is one query head of one sequence.
void reference(const Problem& p, const Inputs& in, std::int64_t unit, Expected& out) {
  const std::int64_t heads = p["q_heads"], kv_heads = p["kv_heads"], d = p["head_dim"],
                     context = p["context"];
  const std::int64_t b = unit / heads, kv_row = b * kv_heads + unit % heads / (heads / kv_heads);
  const std::int64_t length = in["lengths"][b];
  const Values logits = in["logits"], v = in["v_cache"];
  std::vector<double> x(d, 0.0);
  for (std::int64_t key = 0; key < length; ++key) {
    const double weight = logits[unit * context + key];
    for (std::int64_t i = 0; i < d; ++i) x[i] += weight * v[(kv_row * context + key) * d + i];
  }
  out.put("out", unit * d, std::move(x));
}

}  // namespace

Op logits_dot_v() {
  using A = LogitsDotVArgs;
  return {
      .name = "logits_dot_v",
      .summary = "logits . V for one token per sequence: the second product of decode attention alone",
      .dims = {work_dim({"batch", "sequences"}),
               parallel_dim({"q_heads", "query heads"}),
               parallel_dim({"kv_heads", "value heads, each serving q_heads / kv_heads query heads"}),
               {"head_dim", "elements of a head"},
               work_dim({"context", "keys of the longest sequence"}),
               data_dim(
                   {"uneven", "whether lengths differ, with sequences of one key and of none", 0, kNoYes})},
      .check =
          [](const Problem& p) {
            if (p["q_heads"] % p["kv_heads"] != 0)
              throw InputError(fmt::format("logits_dot_v: q_heads ({}) must be a multiple of kv_heads ({})",
                                           p["q_heads"], p["kv_heads"]));
          },
      .tensors = tensors,
      .fields = {field("logits", &A::logits), field("v_cache", &A::v_cache), field("lengths", &A::lengths),
                 field("out", &A::out), field("workspace", &A::workspace), field("batch", &A::batch),
                 field("capacity", &A::capacity, [](const Problem& p) { return p["context"]; })},
      .cost = cost,
      .sharing = heads_per_kv_head,
      .units = [](const Problem& p) { return p["batch"] * p["q_heads"]; },
      .reference = reference,
      // The error of an fp32 sum grows with the number of its terms.
      .tolerance =
          [](const Problem& p) {
            const std::int64_t roundings = p.dtype == DType::fp32 ? 4 + p["context"] / 4096 : 1;
            return default_tolerance(p.dtype, roundings);
          },
  };
}

}  // namespace warptune
