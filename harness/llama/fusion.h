#pragma once
// What a decode step fuses into other launches, and the options that choose it. A step that is tuned as a
// whole holds the options as an Assignment, "fuse_append=yes" (results/wisdom.h).
#include <array>
#include <optional>
#include <string_view>

#include "harness/core/assignment.h"

namespace warptune {

template <class Flag>
struct FusionFlags {
  Flag append = {};  // rope_append into attention_decode
  Flag norm = {};    // each RMSNorm into the GEMM that reads it, the residual add into the one before
  Flag swiglu = {};  // swiglu into gate_up
  Flag argmax = {};  // argmax into lm_head, where sampling is greedy
  /// Each RMSNorm between two GEMMs into both: the one before leaves the row times the norm's weight and
  /// sums of its squares, the one after scales its outputs. `norm` is then of no effect.
  Flag split_norm = {};
  Flag o = {};  // o and its residual add into attention_decode; needs append and norm

  /// In the order of kFusionOptions.
  std::array<Flag*, 6> all() { return {&append, &norm, &swiglu, &argmax, &split_norm, &o}; }
};
using Fusion = FusionFlags<bool>;
/// Empty: unless separate launches are faster by the wisdom.
using FusionChoice = FusionFlags<std::optional<bool>>;
inline constexpr FusionChoice kUnfused = {false, false, false, false, false, false};

struct FusionOption {
  std::string_view name;        // `decode` has it as a flag: --fuse-append
  std::string_view dim, label;  // a step with it solves problems with this value of this dim
  std::string_view help;
};
/// All options. The search of a step (tune/step_tuner.h) tries both values of each.
inline constexpr std::array<FusionOption, 6> kFusionOptions = {{
    {"fuse_append", "append", "yes", "bias, RoPE and cache append inside the attention kernel"},
    {"fuse_norm", "prologue", "rms_norm",
     "each RMSNorm inside the GEMM that reads it, the residual add inside the one before"},
    {"fuse_swiglu", "epilogue", "swiglu", "SwiGLU inside the GEMM of gate and up"},
    {"fuse_argmax", "epilogue", "argmax", "argmax inside lm_head, where sampling is greedy"},
    {"split_norm", "prologue", "rms_scale",
     "each RMSNorm between two GEMMs inside both: sums of squares in the first, their scale in the second"},
    {"fuse_o", "epilogue", "project",
     "the output projection o and its residual add inside the attention kernel, at batch 1 with "
     "--fuse-append and --fuse-norm"},
}};

inline void set_option(Assignment& options, std::string_view name, bool on) {
  options.set(name, on ? 1 : 0, on ? "yes" : "no");
}

}  // namespace warptune
