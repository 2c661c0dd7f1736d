#pragma once
// The tokens of a `warptune decode` run: prefill, then steps whose launches run ahead of the device.
#include <functional>
#include <optional>
#include <vector>

#include "cli/decode_text.h"
#include "harness/llama/decode_report.h"
#include "harness/llama/model.h"

namespace warptune {

struct Generated {
  double prefill_us = 0;
  WallClock wall;
};

/// Prefill and at most `steps` tokens per sequence. What the steps launch is compiled and captured before the
/// clock starts. The last `profiled` steps are a range that a profiler records; those before are the warm-up.
/// `text` gets the tokens, and may end the run; `agree` makes what it says that of all ranks. Throws
/// CheckError where logits were NaN or infinite.
Generated generate(Model& model, const std::vector<std::vector<int>>& prompts, int steps, int profiled,
                   std::optional<DecodeText>& text, const std::function<bool(bool)>& agree = nullptr);

}  // namespace warptune
