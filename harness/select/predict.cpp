#include "harness/select/predict.h"

#include <algorithm>

#include "harness/core/error.h"
#include "harness/select/predict_fit.h"
#include "harness/select/predict_votes.h"

namespace warptune {
namespace {

/// The prediction of the fit, else that of the votes.
class FitThenVotes : public Predictor {
 public:
  explicit FitThenVotes(const RecordedTimes& times) : fit_(times), votes_(times) {}
  std::optional<Prediction> predict(const Problem& problem) const override {
    if (auto fitted = fit_.predict(problem)) return fitted;
    return votes_.predict(problem);
  }

 private:
  const FitPredictor fit_;
  const VotePredictor votes_;
};

}  // namespace

std::unique_ptr<Predictor> make_predictor(const RecordedTimes& times) {
  const auto tells_work = [](const Variant& variant) { return bool(variant.work_distribution); };
  if (std::ranges::any_of(times.op.variants, tells_work)) return std::make_unique<FitThenVotes>(times);
  return std::make_unique<VotePredictor>(times);
}

std::string label_of(const Parameter& parameter, std::int64_t value) {
  const auto label = static_cast<std::size_t>(value);
  return label < parameter.labels.size() ? parameter.labels[label] : "";
}

std::optional<Config> config_of(const Variant& variant, const VariantTimes& times,
                                const VariantTimes::Row& row) {
  if (times.parameters.size() != variant.parameters.size()) return std::nullopt;
  Config config;
  for (std::size_t i = 0; i < times.parameters.size(); ++i) {
    const Parameter& p = variant.parameters[i];
    if (p.name != times.parameters[i]) return std::nullopt;
    config.set(p.name, row.values[i], label_of(p, row.values[i]));
  }
  return config;
}

std::optional<Problem> with_defaults(const Op& op, const Problem& problem) {
  Assignment dims;
  for (const auto& dim : problem.dims.written()) dims.set(dim.name, dim.value, dim.label);
  try {
    return op.problem(dims, problem.dtype);
  } catch (const InputError&) {
    return std::nullopt;
  }
}

}  // namespace warptune
