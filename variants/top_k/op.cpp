// The op top_k: sampling restricted to the k largest logits, and of those to a prefix of probability p.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "harness/core/error.h"
#include "harness/core/philox.h"
#include "kernels/top_k/args.h"
#include "variants/argmax/index_of_largest.h"
#include "variants/helpers/sampling.h"
#include "variants/ops.h"

namespace warptune {
namespace {

constexpr float kTemperature = 0.8f, kP = 0.9f, kMinP = 0.01f, kPenalty = 1.3f;
/// An fp32 sum may cross a boundary that is this close (relative to the total): both ids are correct.
constexpr double kEdge = 1e-4;

std::int64_t seen_words(const Problem& p) { return ceil_div(p["vocab"], 32); }

/// The tokens that were fed last.
std::vector<std::int32_t> fed_tokens(const Problem& p, std::uint64_t seed) {
  std::vector<std::int32_t> ids;
  for (std::int64_t b = 0; b < p["batch"]; ++b) ids.push_back(random_bits(seed, b) % p["vocab"]);
  return ids;
}

/// A quarter of the tokens.
std::vector<std::int32_t> seen_tokens(const Problem& p, std::uint64_t seed) {
  std::vector<std::int32_t> words;
  for (std::int64_t i = 0; i < p["batch"] * seen_words(p); ++i) {
    const std::uint64_t bits = random_bits(seed, i);
    words.push_back(bits & bits >> 32);
  }
  return words;
}

/// The bits of element i of an int32 tensor.
std::uint32_t word_of(const Values& values, std::int64_t i) { return static_cast<std::int32_t>(values[i]); }

/// The logits of a row after the repetition penalty, which is defined in fp32.
std::vector<double> scores_of(const Problem& p, const Inputs& in, std::int64_t row) {
  const std::int64_t vocab = p["vocab"];
  std::vector<double> x = row_of(in["logits"], row, vocab);
  if (p["repetition_penalty"] == 0) return x;
  const Values ids = in["ids"], seen = in["seen"];
  for (std::int64_t i = 0; i < vocab; ++i) {
    if ((word_of(seen, row * seen_words(p) + i / 32) >> i % 32 & 1u) == 0 && i != ids[row]) continue;
    const float score = x[i];
    x[i] = score < 0 ? score * kPenalty : score / kPenalty;
  }
  return x;
}

/// The bits of the seen tokens of a row with that of the token fed last.
std::vector<double> seen_after(const Problem& p, const Inputs& in, std::int64_t row) {
  const Values ids = in["ids"], seen = in["seen"];
  const std::int64_t fed = ids[row];
  std::vector<double> words;
  for (std::int64_t i = 0; i < seen_words(p); ++i) {
    std::uint32_t word = word_of(seen, row * seen_words(p) + i);
    if (i == fed / 32) word |= 1u << fed % 32;
    words.push_back(static_cast<std::int32_t>(word));
  }
  return words;
}

/// The ids that a correct sample may be: the exact one first, then those whose boundary is close.
std::vector<std::size_t> taken(const std::vector<double>& cumulative, double p, double min_p, double u) {
  const std::size_t k = cumulative.size();
  const double total = cumulative.back();
  const auto weight = [&](std::size_t i) { return cumulative[i] - (i == 0 ? 0 : cumulative[i - 1]); };
  const auto last_of = [&](double edge) {
    std::size_t last = 0;
    while (last + 1 < k && cumulative[last] < (p + edge) * total) ++last;
    while (last > 0 && weight(last) < min_p * (1 - edge) * weight(0)) --last;
    return last;
  };
  const auto draw = [&](std::size_t last, double shift) {
    const double target = (u + shift) * cumulative[last];
    std::size_t i = 0;
    while (i < last && cumulative[i] <= target) ++i;
    return i;
  };
  std::vector<std::size_t> ids{draw(last_of(0), 0)};
  for (std::size_t last = last_of(-kEdge); last <= last_of(kEdge); ++last)
    for (std::size_t i = draw(last, -kEdge); i <= draw(last, kEdge); ++i)
      if (std::ranges::find(ids, i) == ids.end()) ids.push_back(i);
  return ids;
}

}  // namespace

Op top_k() {
  return {
      .name = "top_k",
      .summary =
          "a random one of the k largest logits of each row (temperature, top-p, min-p, repetition penalty)",
      .dims = {work_dim({"batch", "rows"}),
               {"vocab", "logits per row"},
               {"k", "candidates per row"},
               feature("repetition_penalty", "whether tokens of the sequence are penalized", kNoYes),
               feature("min_p", "whether unlikely candidates are dropped", kNoYes)},
      .check =
          [](const Problem& p) {
            if (p["k"] > p["vocab"])
              throw InputError(
                  fmt::format("op 'top_k' cannot select the {} largest of {} logits", p["k"], p["vocab"]));
          },
      .tensors =
          [](const Problem& p, std::uint64_t seed) {
            const auto word = [&](std::uint64_t i) -> std::int32_t {
              return random_bits(tensor_seed(seed, 1), i);
            };
            std::vector<TensorSpec> specs = {
                logits_spec(p),
                // Seed and step of 64 bits each, low words first.
                given_ints("rng", {2, 2}, {word(0), word(1), word(2), 0}),
                ids_spec(p),
            };
            if (p["repetition_penalty"] == 0) return specs;
            specs[2].role = Role::inout;
            specs[2].values = fed_tokens(p, tensor_seed(seed, 2));
            specs.push_back(given_ints("seen", {p["batch"], seen_words(p)},
                                       seen_tokens(p, tensor_seed(seed, 3)), Role::inout));
            return specs;
          },
      .fields = {field("logits", &TopKArgs::logits), field("rng", &TopKArgs::rng),
                 field("ids", &TopKArgs::ids), field("workspace", &TopKArgs::workspace),
                 field("batch", &TopKArgs::batch), field("temperature", &TopKArgs::temperature, kTemperature),
                 field("p", &TopKArgs::p, kP), field("min_p", &TopKArgs::min_p, kMinP),
                 field("repetition_penalty", &PenalizedTopKArgs::repetition_penalty, kPenalty),
                 field("seen", &PenalizedTopKArgs::seen)},
      .args_bytes =
          [](const Problem& p) {
            return p["repetition_penalty"] ? sizeof(PenalizedTopKArgs) : sizeof(TopKArgs);
          },
      .cost =
          [](const Problem& p) {
            // A penalty reads the token fed last and all bits, and writes one word.
            const std::int64_t seen = p["repetition_penalty"] ? p["batch"] * (4 * seen_words(p) + 8) : 0;
            return sampling_cost(p, 16 + seen);
          },
      .units = [](const Problem& p) { return p["batch"]; },
      .reference =
          [](const Problem& p, const Inputs& in, std::int64_t row, Expected& out) {
            const std::int64_t k = p["k"];
            const Values rng = in["rng"];
            const std::vector<double> x = scores_of(p, in, row);
            std::vector<std::size_t> order(x.size());
            std::iota(order.begin(), order.end(), std::size_t{0});
            std::ranges::partial_sort(order, order.begin() + k, [&](std::size_t a, std::size_t b) {
              return ranks_above(x[a], x[b]) || (!ranks_above(x[b], x[a]) && a < b);
            });
            std::vector<double> cumulative(k);
            double sum = 0;
            for (std::int64_t i = 0; i < k; ++i)
              cumulative[i] = sum += std::exp((x[order[i]] - x[order[0]]) / kTemperature);
            const auto word = [&](std::int64_t i) { return std::uint64_t{word_of(rng, i)}; };
            const float u = philox_uniform(word(0) | word(1) << 32, word(2) | word(3) << 32, row);
            std::vector<double> ids;
            if (std::isfinite(x[order[0]]))
              for (const std::size_t i : taken(cumulative, kP, p["min_p"] ? kMinP : 0, u))
                ids.push_back(order[i]);
            else
              ids.push_back(order[0]);
            out.put("ids", row, {ids[0]}, std::vector<double>(ids.begin() + 1, ids.end()));
            if (p["repetition_penalty"]) out.put("seen", row * seen_words(p), seen_after(p, in, row));
          },
      .tolerance = [](const Problem&) { return default_tolerance(DType::int32); },
  };
}

}  // namespace warptune
