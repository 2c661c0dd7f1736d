#include "harness/llama/sampling.h"

#include <fmt/format.h>

#include "harness/core/assignment.h"
#include "harness/core/brief.h"
#include "harness/core/error.h"
#include "harness/core/text.h"

namespace warptune {
namespace {

constexpr int kMaxK = 1 << 24;  // no vocabulary is larger

template <class T>
T parse(const std::string& name, const std::string& text, T min, T max) {
  const auto value = parse_number<T>(text);
  if (!value || !(*value >= min && *value <= max))
    throw InputError("--sampling: {} is '{}'; it must be a number from {} to {}", name, text, min, max);
  return *value;
}

}  // namespace

std::string Sampling::suffix() const {
  if (greedy) return {};
  return fmt::format("+top_k={}{}{}", k, min_p > 0 ? "+min_p" : "", penalizes() ? "+penalty" : "");
}

Sampling parse_sampling(std::string_view text) {
  Sampling sampling;
  if (text == "greedy") return sampling;
  sampling.greedy = false;
  for (const auto& [name, value] : parse_pairs(text)) {
    if (name == "top_k" || name == "k")
      sampling.k = parse(name, value, 0, kMaxK);
    else if (name == "p")
      sampling.p = parse(name, value, 1e-6f, 1.0f);
    else if (name == "min_p")
      sampling.min_p = parse(name, value, 0.0f, 1.0f);
    else if (name == "repetition_penalty")
      sampling.repetition_penalty = parse(name, value, 1e-3f, 1000.0f);
    else if (name == "temperature")
      sampling.temperature = parse(name, value, 1e-3f, 100.0f);
    else if (name == "seed")
      sampling.seed = parse<std::uint64_t>(name, value, 0, ~0ull);
    else
      throw InputError(
          "--sampling: unknown '{}'; it takes greedy, or top_k, p, min_p, repetition_penalty, "
          "temperature and seed",
          brief(name));
  }
  return sampling;
}

}  // namespace warptune
