#pragma once
// The options of a decode step: what is fused. Each is yes or no. A step that is tuned as a whole holds them
// as an Assignment, "fuse_append=yes" (results/step_plans.h).
#include <array>
#include <string_view>

#include "harness/core/assignment.h"

namespace warptune {

/// rope_append is part of attention_decode.
inline constexpr std::string_view kFuseAppend = "fuse_append";

/// Each RMSNorm is part of the GEMM that reads it, the residual add of the one before.
inline constexpr std::string_view kFuseNorm = "fuse_norm";
/// swiglu is part of the GEMM gate_up.
inline constexpr std::string_view kFuseSwiglu = "fuse_swiglu";
/// argmax is part of the GEMM lm_head, where sampling is greedy.
inline constexpr std::string_view kFuseArgmax = "fuse_argmax";
/// Each RMSNorm between two GEMMs is part of both (Fusion::split_norm); fuse_norm is then of no effect.
inline constexpr std::string_view kSplitNorm = "split_norm";

/// o and its residual add are part of attention_decode. It needs fuse_append and fuse_norm.
inline constexpr std::string_view kFuseO = "fuse_o";

/// All options. The search of a step (tune/step_tuner.h) tries both values of each.
inline constexpr std::array kStepOptions = {kFuseAppend, kFuseNorm,  kFuseSwiglu,
                                            kFuseArgmax, kSplitNorm, kFuseO};

/// The problems that a step solves where an option is on: those with this value of this dim.
struct OptionProblems {
  std::string_view option, dim, label;
};
inline constexpr std::array<OptionProblems, kStepOptions.size()> kOptionProblems = {
    {{kFuseAppend, "append", "yes"},
     {kFuseNorm, "prologue", "rms_norm"},
     {kFuseSwiglu, "epilogue", "swiglu"},
     {kFuseArgmax, "epilogue", "argmax"},
     {kSplitNorm, "prologue", "rms_scale"},
     {kFuseO, "epilogue", "project"}}};

inline void set_option(Assignment& options, std::string_view name, bool on) {
  options.set(name, on ? 1 : 0, on ? "yes" : "no");
}

}  // namespace warptune
