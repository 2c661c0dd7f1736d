#pragma once
// The ranges of tuning in a profiler's timeline: problem > variant > configuration > stage.
#include "harness/core/variant.h"
#include "harness/device/nvtx.h"

namespace warptune {

inline NvtxRange problem_range(const Problem& problem) {
  return NvtxRange(NvtxKind::problem, problem.op, [&] { return problem.key(); });
}

/// A variant, and in it one of its configurations.
struct ConfigRange {
  ConfigRange(const Problem& problem, const Variant& of, const Config& values)
      : variant(NvtxKind::variant, problem.op, [&] { return of.name; }),
        config(NvtxKind::config, problem.op,
               [&] { return values.empty() ? "no parameters" : values.str(); }) {}
  const NvtxRange variant, config;
};

/// What is done with a configuration; `set_up` makes the tensors and references of its problem.
struct TuningStages {
  static NvtxName named(const char* text) {
    return NvtxName(NvtxKind::stage, {}, [&] { return text; });
  }
  const NvtxName set_up = named("set up"), compile = named("compile"), verify = named("verify"),
                 time = named("time");
};
inline const TuningStages& tuning_stages() {
  static const TuningStages stages;
  return stages;
}

}  // namespace warptune
