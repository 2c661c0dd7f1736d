#pragma once
// What a sweep tunes: problems with the variants to try, and decode steps of models.
#include <optional>
#include <string>
#include <vector>

#include "harness/core/op_table.h"
#include "harness/core/space.h"
#include "harness/llama/step_problem.h"
#include "harness/measure/bench.h"
#include "harness/results/wisdom.h"

namespace warptune {

/// A variant to try, with the parameter values and constraints that the file adds.
struct VariantChoice {
  const Variant* variant = nullptr;
  std::vector<Override> overrides;
  std::vector<Expression> constraints;
  std::vector<std::string> constraint_places = {};  // "FILE:LINE" of each
};

/// What the winner of a problem has least of: the time of a launch, its energy, or the product of both.
enum class Objective { time, energy, edp };

/// A problem and the variants to try on it.
struct SweepItem {
  const OpEntry* entry = nullptr;
  Problem problem;
  BenchOptions options;
  std::vector<VariantChoice> choices;
  int finalists = 8;          // the number of fastest configurations that are timed again, interleaved
  bool other_caches = false;  // finalists are timed in the other cache states too
  bool sustained = false;     // finalists are timed after ten seconds of steady load too
  Objective objective = Objective::time;  // decides among the finalists
  int max_configs = 0;                    // limit of each variant's configurations; 0: all
  bool named = false;  // the file names the variants: it is an error if none of them fits the device
  std::string where;   // "FILE:LINE", for that error
  double share = 0;    // its part of the roofline time of the model's decode step or prefill; 0: no model
};

/// A model's decode step, whose plans are tuned together.
struct StepItem {
  std::string model;  // the preset, or the folder of the checkpoint
  StepSpec spec;
  int candidates = 8;                   // plans per problem; parameters with in_step_only add more
  std::optional<StepPlans> plans = {};  // recorded: they are timed again, and no others
  std::string where = {};               // "FILE:LINE"
};

}  // namespace warptune
