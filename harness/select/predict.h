#pragma once
// Predicts the fastest configuration of a problem that was not tuned from the recorded times of others.
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

/// Whether the times of a variant, recorded with a winner, still hold here.
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
  /// Nothing where too little is known. The recorded times of this very problem do not count.
  virtual std::optional<Prediction> predict(const Problem& problem) const = 0;
};

/// The name of a parameter's value; empty where values are numbers.
std::string label_of(const Parameter& parameter, std::int64_t value);
/// The configuration of a recorded time, with labels; nothing where the variant has other parameters now.
std::optional<Config> config_of(const Variant& variant, const VariantTimes& times,
                                const VariantTimes::Row& row);
/// The problem with the defaults of the dims that its key omits; nothing where its op has other dims now.
std::optional<Problem> with_defaults(const Op& op, const Problem& problem);

/// Votes (predict_votes.h). An op with a variant that tells its work distribution asks the fit
/// (predict_fit.h) first, and the votes where the fit says nothing. The op and the facts must outlive it; it
/// keeps nothing of the wisdom. It reads fifty thousand times in about a second and predicts in some
/// hundredths of one: make one and use it often.
std::unique_ptr<Predictor> make_predictor(const RecordedTimes& times);

}  // namespace warptune
