#pragma once
// The problems of a run that the wisdom does not know are timed before it.
#include "cli/decode_options.h"
#include "cli/decode_prompts.h"
#include "harness/core/facts.h"
#include "harness/llama/model_config.h"
#include "harness/select/plan_choice.h"

namespace warptune {

/// Times the likely configurations (tune/missing.h) of the problems of the run's prefill and steps that have
/// no winner, and are neither overridden nor of a step that was tuned as a whole. The rows and winners go to
/// OUT/<device>, the winners into `plans.wisdom` too. One line says what was timed. A failure costs the
/// winners only: one line says why. Does nothing for naive plans, on the host unless --tune-missing asks for
/// it, and where the option is 0. Problems of several ranks are not timed. Ranks but the first take what the
/// first has timed: `times` is false.
void tune_missing(const DecodeOptions& options, const ModelConfig& config, DType dtype, const KvFormat& kv,
                  const Prompts& prompts, const Lengths& lengths, const DeviceFacts& facts,
                  PlanOptions& plans, bool times = true);

}  // namespace warptune
