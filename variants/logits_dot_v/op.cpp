// The op logits_dot_v: the P.V of decode attention alone, to compare its implementations.
// Source: Vaswani et al., "Attention Is All You Need", 2017; Ainslie et al., "GQA", 2023.
#include <fmt/format.h>

#include "harness/core/error.h"
#include "kernels/logits_dot_v/args.h"
#include "variants/helpers/lengths.h"
#include "variants/ops.h"

namespace warptune {
namespace {

/// All equal to the longest; or from the longest down to one key, with a finished sequence from three on.
std::vector<std::int32_t> lengths_of(const Problem& p, std::uint64_t seed) {
  const std::int64_t batch = p["batch"];
  if (p["uneven"] == 0)
    return std::vector<std::int32_t>(static_cast<std::size_t>(batch),
                                     static_cast<std::int32_t>(p["context"]));
  if (batch < 3) return uneven_lengths(batch, p["context"], seed);
  auto lengths = uneven_lengths(batch - 1, p["context"], seed);
  lengths.insert(lengths.begin() + static_cast<std::ptrdiff_t>(seed % static_cast<std::uint64_t>(batch)), 0);
  return lengths;
}

std::vector<TensorSpec> tensors(const Problem& p, std::uint64_t seed) {
  const std::int64_t batch = p["batch"], heads = p["q_heads"], context = p["context"], d = p["head_dim"];
  return {
      {.name = "logits", .dtype = p.dtype, .shape = {batch, heads, context}, .cache = CacheState::hot},
      {.name = "v_cache", .dtype = p.dtype, .shape = {batch, p["kv_heads"], context, d}},
      {.name = "lengths",
       .dtype = DType::int32,
       .shape = {batch},
       .cache = CacheState::hot,
       .values = lengths_of(p, seed)},
      {.name = "out",
       .dtype = p.dtype,
       .shape = {batch, heads, d},
       .role = Role::output,
       .cache = CacheState::hot},
  };
}

Cost cost(const Problem& p) {
  const double b = static_cast<double>(size_of(p.dtype)), d = static_cast<double>(p["head_dim"]),
               heads = static_cast<double>(p["q_heads"]), kv_heads = static_cast<double>(p["kv_heads"]);
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
  const auto length = static_cast<std::int64_t>(in["lengths"][b]);
  const Values logits = in["logits"], v = in["v_cache"];
  std::vector<double> x(static_cast<std::size_t>(d), 0.0);
  for (std::int64_t key = 0; key < length; ++key) {
    const double weight = logits[unit * context + key];
    for (std::int64_t i = 0; i < d; ++i)
      x[static_cast<std::size_t>(i)] += weight * v[(kv_row * context + key) * d + i];
  }
  out.put("out", unit * d, std::move(x));
}

}  // namespace

Op logits_dot_v() {
  return {
      .name = "logits_dot_v",
      .summary = "logits . V for one token per sequence: the second product of decode attention alone",
      .dims = {work_dim({"batch", "sequences"}),
               parallel_dim({"q_heads", "query heads"}),
               parallel_dim({"kv_heads", "value heads, each serving q_heads / kv_heads query heads"}),
               {"head_dim", "elements of a head"},
               work_dim({"context", "keys of the longest sequence"}),
               data_dim({"uneven",
                         "whether lengths differ, with sequences of one key and of none",
                         0,
                         {"no", "yes"}})},
      .check =
          [](const Problem& p) {
            if (p["q_heads"] % p["kv_heads"] != 0)
              throw InputError(fmt::format("logits_dot_v: q_heads ({}) must be a multiple of kv_heads ({})",
                                           p["q_heads"], p["kv_heads"]));
          },
      .tensors = tensors,
      .bind =
          [](const Problem& p, std::span<void* const> t, void* workspace) {
            return Args(LogitsDotVArgs{.logits = t[0],
                                       .v_cache = t[1],
                                       .lengths = static_cast<const int*>(t[2]),
                                       .out = t[3],
                                       .workspace = workspace,
                                       .batch = static_cast<int>(p["batch"]),
                                       .capacity = static_cast<int>(p["context"])});
          },
      .fields = {field("logits", &LogitsDotVArgs::logits), field("v_cache", &LogitsDotVArgs::v_cache),
                 field("lengths", &LogitsDotVArgs::lengths), field("out", &LogitsDotVArgs::out),
                 field("workspace", &LogitsDotVArgs::workspace), field("batch", &LogitsDotVArgs::batch),
                 field("capacity", &LogitsDotVArgs::capacity)},
      .cost = cost,
      .sharing =
          [](const Problem& p) {
            return static_cast<double>(p["q_heads"]) / static_cast<double>(p["kv_heads"]);
          },
      .units = [](const Problem& p) { return p["batch"] * p["q_heads"]; },
      .reference = reference,
      // The error of an fp32 sum grows with the number of its terms.
      .tolerance =
          [](const Problem& p) {
            return default_tolerance(p.dtype,
                                     p.dtype == DType::fp32 ? 4 + static_cast<int>(p["context"] / 4096) : 1);
          },
  };
}

}  // namespace warptune
