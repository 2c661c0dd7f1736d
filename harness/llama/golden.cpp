#include "harness/llama/golden.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "harness/core/error.h"
#include "harness/llama/safetensors.h"

namespace warptune {
namespace {

constexpr double kFp32MaxRel = 1e-3;
constexpr double kHalfL2 = 2e-2;
// Rounding a row to 8 bits, scaled by its largest element, has a relative L2 error of 0.64 % in int8 (steps
// of 1/127 of an element near 2.8 standard deviations: 2.8 / 127 / sqrt(12)) and of 2.6 % in fp8 (3 bits of
// mantissa). Keys and values together have 0.9 % and 3.7 %. Softmax and residual stream do not amplify that,
// so the logits have about the same error. The bounds are about 1.6 and 1.35 times as large.
constexpr double kInt8L2 = 1.5e-2, kFp8L2 = 5e-2;

template <class T>
std::vector<T> values_of(const SafetensorsFile& file, const std::string& name, const char* dtype,
                         std::size_t rank, std::vector<std::int64_t>& shape) {
  const auto it = file.tensors().find(name);
  if (it == file.tensors().end() || it->second.dtype != dtype || it->second.shape.size() != rank ||
      it->second.data.empty())
    throw InputError("{}: there is no tensor '{}' of {} with {} dims; this is not a golden file",
                     file.path().string(), name, dtype, rank);
  shape = it->second.shape;
  std::vector<T> values(it->second.data.size() / sizeof(T));
  std::memcpy(values.data(), it->second.data.data(), it->second.data.size());
  return values;
}

int best_of(std::span<const float> logits) {
  return static_cast<int>(std::ranges::max_element(logits) - logits.begin());
}

/// The bound on the relative L2 error of a run's logits; 0 if the largest error is checked instead.
double l2_bound(DType dtype, const KvFormat& kv, bool fp8_activations) {
  const double of_cache = !kv.quantized                  ? 0
                          : *kv.quantized == DType::int8 ? kInt8L2
                                                         : kFp8L2,
               rounded = std::hypot(of_cache, fp8_activations ? kFp8L2 : 0);
  return dtype == DType::fp32 ? rounded : std::hypot(kHalfL2, rounded);
}

}  // namespace

Agreement::Agreement(DType dtype, const KvFormat& kv, ComparedWith with, bool fp8_activations)
    : bound_(l2_bound(dtype, kv, fp8_activations) * (with == ComparedWith::run ? std::numbers::sqrt2 : 1)) {}

Golden read_golden(const std::filesystem::path& path) {
  const SafetensorsFile file(path);
  std::vector<std::int64_t> prompts, tokens, logits;
  const auto prompt_ids = values_of<int>(file, "prompts", "I32", 2, prompts);
  const auto token_ids = values_of<int>(file, "tokens", "I32", 2, tokens);
  Golden golden{.logits = values_of<float>(file, "logits", "F32", 3, logits)};
  if (tokens[0] != prompts[0] || logits[0] != tokens[0] || logits[1] != tokens[1])
    throw InputError("{}: the shapes of prompts, tokens and logits do not match", path.string());
  golden.vocab = static_cast<int>(logits[2]);
  for (std::int64_t b = 0; b < prompts[0]; ++b) {
    const auto prompt = prompt_ids.begin() + b * prompts[1], token = token_ids.begin() + b * tokens[1];
    golden.prompts.emplace_back(prompt,
                                std::find_if(prompt, prompt + prompts[1], [](int id) { return id < 0; }));
    golden.tokens.emplace_back(token, token + tokens[1]);
  }
  return golden;
}

void Agreement::add(std::span<const float> got, std::span<const float> want, int sequence, int step) {
  ++rows_;
  double error2 = 0, want2 = 0, max_error = 0, max_want = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double error = std::abs(static_cast<double>(got[i]) - want[i]);
    error2 += error * error;
    want2 += static_cast<double>(want[i]) * want[i];
    max_error = std::isnan(error) ? INFINITY : std::max(max_error, error);
    max_want = std::max(max_want, std::abs(static_cast<double>(want[i])));
  }
  const double max_rel = max_error / max_want,
               l2 = std::isfinite(max_error) ? std::sqrt(error2 / want2) : INFINITY;
  worst_max_ = std::max(worst_max_, max_rel);
  worst_l2_ = std::max(worst_l2_, l2);
  error2_ += error2;
  want2_ += want2;

  const int best = best_of(want), chosen = best_of(got);
  double second = -INFINITY;
  for (std::size_t i = 0; i < want.size(); ++i)
    if (static_cast<int>(i) != best) second = std::max(second, static_cast<double>(want[i]));
  const double gap = want[best] - second;
  // Two logits may each have the allowed error; for an L2 bound, three standard deviations of their
  // difference.
  const double rms = std::sqrt(want2 / static_cast<double>(want.size()));
  const double noise = bound_ == 0 ? 2 * kFp32MaxRel * max_want : 3 * std::sqrt(2.0) * bound_ * rms;
  if (chosen == best)
    ++tokens_equal_;
  else if (gap <= noise)
    ++ties_;

  if (!failure_.empty()) return;
  const std::string where = fmt::format("sequence {}, step {}", sequence, step);
  if (bound_ == 0 && !(max_rel <= kFp32MaxRel))
    failure_ = fmt::format("{}: a logit is off by {:.1e} of the largest; {:.0e} is allowed", where, max_rel,
                           kFp32MaxRel);
  else if (bound_ != 0 && !(l2 <= 2 * bound_))
    failure_ = fmt::format("{}: the logits' relative L2 error is {:.1e}; {:.1e} is allowed in a row", where,
                           l2, 2 * bound_);
  else if (chosen != best && gap > noise)
    failure_ = fmt::format("{}: token {} instead of {}, which leads by {:.2g} (noise {:.2g})", where, chosen,
                           best, gap, noise);
}

double Agreement::l2() const { return error2_ == 0 ? 0 : std::sqrt(error2_ / want2_); }

bool Agreement::ok() const { return failure_.empty() && (bound_ == 0 || l2() <= bound_); }

std::string Agreement::summary() const {
  if (!failure_.empty()) return failure_;
  if (!ok()) return fmt::format("the logits' relative L2 error is {:.1e}; {:.1e} is allowed", l2(), bound_);
  return fmt::format(
      "{} rows of logits, relative L2 error {:.1e} (worst row {:.1e}), worst error {:.1e} of the largest; {} "
      "tokens equal, {} within noise",
      rows_, l2(), worst_l2_, worst_max_, tokens_equal_, ties_);
}

Agreement check_golden(Model& model, const Golden& golden) {
  if (golden.vocab != model.config().vocab)
    throw InputError("the golden has a vocabulary of {}, the model of {}", golden.vocab,
                     model.config().vocab);
  Agreement agreement(model.weights().dtype, model.options().kv, ComparedWith::reference,
                      model.config().weights.fp8_activations);
  const int batch = static_cast<int>(golden.prompts.size());
  const auto vocab = static_cast<std::size_t>(golden.vocab);
  model.prefill(golden.prompts);
  for (int step = 0;; ++step) {
    const std::vector<float> logits = model.logits();
    std::vector<int> fed;
    for (int b = 0; b < batch; ++b) {
      agreement.add(std::span(logits).subspan(static_cast<std::size_t>(b) * vocab, vocab),
                    golden.row(b, step), b, step);
      fed.push_back(golden.tokens[b][step]);
    }
    if (step == golden.steps()) return agreement;
    model.force(fed);
    model.step();
  }
}

Agreement check_against(Model& model, Model& reference, std::span<const std::vector<int>> prompts, int steps,
                        CheckScope scope) {
  Agreement agreement(model.weights().dtype, model.options().kv, ComparedWith::reference,
                      model.config().weights.fp8_activations);
  const auto vocab = static_cast<std::size_t>(model.config().vocab);
  const auto compare = [&](int step) {
    const std::vector<float> got = model.logits(), want = reference.logits();
    for (std::size_t b = 0; b < prompts.size(); ++b)
      agreement.add(std::span(got).subspan(b * vocab, vocab), std::span(want).subspan(b * vocab, vocab),
                    static_cast<int>(b), step);
  };
  model.prefill(prompts);
  if (scope == CheckScope::steps) {
    reference.start_from(model);
  } else {
    reference.prefill(prompts);
    compare(0);
  }
  for (int step = 1; step <= steps; ++step) {
    model.force(reference.ids());
    model.step();
    reference.step();
    compare(step);
  }
  return agreement;
}

}  // namespace warptune
