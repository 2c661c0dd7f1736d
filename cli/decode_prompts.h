#pragma once
// The prompts and the lengths of a `warptune decode` run.
#include <cstdint>
#include <optional>
#include <vector>

#include "cli/decode_options.h"
#include "harness/llama/golden.h"
#include "harness/llama/model_config.h"

namespace warptune {

/// The prompts of a run. Random ones and repetitions are not made before they are known to fit the memory.
struct Prompts {
  std::vector<std::vector<int>> given;  // in the golden, the text or the file; empty: random
  std::vector<std::int64_t> lengths;    // per sequence
};
/// `text`: ids of prompts that are text.
Prompts prompts_of(const DecodeOptions& options, const std::optional<Golden>& golden,
                   const std::vector<std::vector<int>>& text);
/// The token ids of each sequence.
std::vector<std::vector<int>> tokens_of(const Prompts& prompts, const DecodeOptions& options,
                                        const ModelConfig& config);

/// In tokens: steps after the first token, the longest prompt, keys of the cache, keys of each sequence in
/// the timed step.
struct Lengths {
  int steps = 0, prompt = 0, positions = 0, capacity = 0;
  std::vector<int> contexts = {};
  int longest_context() const;
};
/// Throws InputError for lengths that do not go together. Prints a note where the model was made for fewer
/// positions.
Lengths lengths_of(const DecodeOptions& options, const ModelConfig& config,
                   const std::optional<Golden>& golden, const Prompts& prompts);

}  // namespace warptune
