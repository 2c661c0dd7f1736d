// The op top_k: sampling restricted to the k largest logits, and of those to a prefix of probability p.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "harness/core/error.h"
#include "harness/core/philox.h"
#include "kernels/top_k/args.h"
#include "variants/helpers/sampling.h"
#include "variants/top_k/top_k.h"

namespace warptune {
namespace {

constexpr std::int64_t kMostK = 256;
constexpr float kTemperature = 0.8f, kP = 0.9f;
/// An fp32 sum may cross a boundary that is this close (relative to the total): both ids are correct.
constexpr double kEdge = 1e-4;

/// The ids that a correct sample may be: the exact one first, then those whose boundary is close.
std::vector<std::size_t> taken(const std::vector<double>& cumulative, double p, double u) {
  const std::size_t k = cumulative.size();
  const double total = cumulative.back();
  const auto last_of = [&](double share) {
    const auto it = std::ranges::find_if(cumulative, [&](double c) { return c >= share * total; });
    return it == cumulative.end() ? k - 1 : static_cast<std::size_t>(it - cumulative.begin());
  };
  const auto draw = [&](std::size_t last, double shift) {
    const double target = (u + shift) * cumulative[last];
    std::size_t i = 0;
    while (i < last && cumulative[i] <= target) ++i;
    return i;
  };
  std::vector<std::size_t> ids{draw(last_of(p), 0)};
  for (std::size_t last = last_of(p - kEdge); last <= last_of(p + kEdge); ++last)
    for (std::size_t i = draw(last, -kEdge); i <= draw(last, kEdge); ++i)
      if (std::ranges::find(ids, i) == ids.end()) ids.push_back(i);
  return ids;
}

}  // namespace

Op top_k() {
  return {
      .name = "top_k",
      .summary = "a random one of the k largest logits of each row (temperature, top-p)",
      .dims = {work_dim({"batch", "rows"}), {"vocab", "logits per row"}, {"k", "candidates per row"}},
      .check =
          [](const Problem& p) {
            if (p["k"] > p["vocab"])
              throw InputError(
                  fmt::format("op 'top_k' cannot select the {} largest of {} logits", p["k"], p["vocab"]));
            if (p["k"] > kMostK)
              throw InputError(
                  fmt::format("dim 'k' of op 'top_k' is {}; at most {} are possible", p["k"], kMostK));
          },
      .tensors =
          [](const Problem& p, std::uint64_t seed) {
            const auto word = [&](std::uint64_t i) {
              return static_cast<std::int32_t>(random_bits(tensor_seed(seed, 1), i));
            };
            return std::vector<TensorSpec>{
                logits_spec(p),
                // Seed and step of 64 bits each, low words first.
                {.name = "rng",
                 .dtype = DType::int32,
                 .shape = {2, 2},
                 .cache = CacheState::hot,
                 .values = {word(0), word(1), word(2), 0}},
                ids_spec(p),
            };
          },
      .bind =
          [](const Problem& p, std::span<void* const> t, void* workspace) {
            return Args(TopKArgs{.logits = t[0],
                                 .rng = static_cast<const unsigned long long*>(t[1]),
                                 .ids = static_cast<int*>(t[2]),
                                 .workspace = workspace,
                                 .batch = static_cast<int>(p["batch"]),
                                 .temperature = kTemperature,
                                 .p = kP});
          },
      .cost = [](const Problem& p) { return sampling_cost(p, 16); },
      .units = [](const Problem& p) { return p["batch"]; },
      .reference =
          [](const Problem& p, const Inputs& in, std::int64_t row, Expected& out) {
            const std::int64_t vocab = p["vocab"];
            const auto k = static_cast<std::size_t>(p["k"]);
            const Values logits = in["logits"], rng = in["rng"];
            std::vector<double> x(static_cast<std::size_t>(vocab));
            for (std::int64_t i = 0; i < vocab; ++i) x[static_cast<std::size_t>(i)] = logits[row * vocab + i];
            std::vector<std::size_t> order(x.size());
            std::iota(order.begin(), order.end(), std::size_t{0});
            std::ranges::partial_sort(
                order, order.begin() + static_cast<std::ptrdiff_t>(k),
                [&](std::size_t a, std::size_t b) { return x[a] > x[b] || (x[a] == x[b] && a < b); });
            std::vector<double> cumulative(k);
            double sum = 0;
            for (std::size_t i = 0; i < k; ++i)
              cumulative[i] = sum += std::exp((x[order[i]] - x[order[0]]) / kTemperature);
            const auto word = [&](std::int64_t i) {
              return static_cast<std::uint64_t>(
                  static_cast<std::uint32_t>(static_cast<std::int32_t>(rng[i])));
            };
            const float u = philox_uniform(word(0) | word(1) << 32, word(2) | word(3) << 32,
                                           static_cast<std::uint32_t>(row));
            std::vector<double> ids;
            for (const std::size_t i : taken(cumulative, kP, u)) ids.push_back(static_cast<double>(order[i]));
            out.put("ids", row, {ids[0]}, std::vector<double>(ids.begin() + 1, ids.end()));
          },
      .tolerance = [](const Problem&) { return default_tolerance(DType::int32); },
  };
}

}  // namespace warptune
