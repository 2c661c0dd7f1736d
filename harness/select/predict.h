#pragma once
// Predicts the fastest configuration of an untuned problem from the recorded times of other problems.
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "harness/core/variant.h"
#include "harness/results/wisdom.h"

namespace warptune {

struct Prediction {
  const Variant* variant = nullptr;
  Config config;
  double time_us = 0;  // expected
};

/// Whether the times of a variant, recorded with a winner, are still valid here.
using TimesHold = std::function<bool(const Winner&, const VariantTimes&)>;

/// The recorded times of one op and dtype that a predictor reads.
struct RecordedTimes {
  const Wisdom& wisdom;
  const OpEntry& op;
  DType dtype;
  const DeviceFacts& facts;
  TimesHold hold;
};

class Predictor {
 public:
  virtual ~Predictor() = default;
  /// Empty if there are too few times. Ignores the recorded times of the problem itself.
  virtual std::optional<Prediction> predict(const Problem& problem) const = 0;
};

/// The label of a parameter's value; empty if values are numbers.
std::string label_of(const Parameter& parameter, std::int64_t value);
/// The configuration of a recorded time, with labels; empty if the variant's parameters have changed.
std::optional<Config> config_of(const Variant& variant, const VariantTimes& times,
                                const VariantTimes::Row& row);
/// The problem with the defaults of the dims that its key omits; empty if the op's dims have changed.
std::optional<Problem> with_defaults(const Op& op, const Problem& problem);

/// Predicts by votes (predict_votes.h). For an op with a variant that declares its work distribution, the fit
/// (predict_fit.h) comes first, and the votes are used where it has no prediction. The op and the facts must
/// outlive the predictor; the wisdom need not. Construction reads 50,000 times in about 1 s, a prediction
/// takes some 10 ms: construct once, predict often.
std::unique_ptr<Predictor> make_predictor(const RecordedTimes& times);

}  // namespace warptune
