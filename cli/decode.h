#pragma once
// The parts of `warptune decode`: its options, prompts, text and layers, and what is timed before it.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/options.h"
#include "cli/ranks.h"
#include "harness/core/facts.h"
#include "harness/llama/decode_report.h"
#include "harness/llama/fusion.h"
#include "harness/llama/golden.h"
#include "harness/llama/kv_format.h"
#include "harness/llama/model.h"
#include "harness/llama/model_config.h"
#include "harness/select/plan_chooser.h"
#include "harness/text/text_process.h"

namespace warptune {

struct DecodeOptions {
  std::string model_folder, preset_name,
      device = "auto", dtype, prompt_file, wisdom, baseline, graph = "on", sampling = "greedy", golden, csv,
      out = "results", stale_wisdom = "refuse", weights, kv_dtype = "same", k_layout = "sd", dump_layers,
      compare_layers;
  std::vector<int> prompt_lens;
  std::string text_file;                  // a prompt per line
  std::vector<std::string> texts, stops;  // prompts; stop strings
  bool chat = false;
  std::vector<std::string> variants;
  std::optional<std::uint64_t> random_weights = {};  // their seed; without one a checkpoint has its own
  std::uint64_t seed() const { return random_weights.value_or(1); }
  std::optional<double> tune_missing = {};  // seconds of GPU time per problem
  int ranks = 1, batch = 0, steps = 32, context = 0, check_baseline = 0, profile_steps = 0;
  bool if_fits = false, require_tuned = false, explain = false, verbose = false, check_steps_only = false;
  FusionChoice fuse = {};
  KvFormat kv = {};
  KernelOption kernels;
  HistoryOption history;
  bool watches_layers() const { return !dump_layers.empty() || !compare_layers.empty(); }
};

/// Each with its help text and the values it takes. `options` must live as long as `command`.
void add_decode_options(CLI::App& command, DecodeOptions& options);

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

/// Prompts that are text to ids, and ids to text as they arrive.
class DecodeText {
 public:
  /// Empty without --prompt and --prompt-file. Throws InputError for a prompt that cannot be used.
  static std::optional<DecodeText> open(const DecodeOptions& options, const ModelConfig& config);

  /// The ids of the prompts.
  const std::vector<std::vector<int>>& prompts() const { return prompts_; }
  void begin(int batch);
  /// Takes the next tokens of each sequence, and prints the text of one sequence as it arrives. Returns
  /// whether any sequence goes on: it has met neither an end token nor a stop string.
  bool next(std::vector<std::span<const int>> tokens);
  /// Prints what is left: the end of one sequence, or the texts of several.
  void end();

 private:
  struct Sequence {
    std::string text = {};
    int tokens = 0;
    bool ended = false;
  };
  DecodeText() = default;
  void add(Sequence& sequence, const std::string& text) const;

  std::unique_ptr<TextProcess> process_;
  std::vector<std::vector<int>> prompts_;
  std::vector<std::string> stops_;
  std::vector<int> end_tokens_;
  bool chat_ = false;
  std::vector<Sequence> sequences_;
};

/// Writes the activations of the prefill and `steps` steps, with ranks those of rank 0.
void dump_layers(Model& model, const std::vector<std::vector<int>>& prompts, int steps,
                 const std::string& folder, const Ranks& ranks);
/// Runs the prefill and the steps on the dump's tokens and prints where the activations part. Returns whether
/// they agree, on ranks but the first always.
bool compare_layers(Model& model, const std::vector<std::vector<int>>& prompts, int steps,
                    const std::string& folder, const Ranks& ranks);

/// Times the likely configurations (tune/missing.h) of the problems of the run's prefill and steps that have
/// no winner, and are neither overridden nor of a step that was tuned as a whole. The rows and winners go to
/// OUT/<device>, the winners into `plans.wisdom` too. One line says what was timed. A failure costs the
/// winners only: one line says why. Does nothing for naive plans, on the host unless --tune-missing asks for
/// it, and where the option is 0. Problems of several ranks are not timed. Ranks but the first take what the
/// first has timed: `times` is false.
void tune_missing(const DecodeOptions& options, const ModelConfig& config, DType dtype, const KvFormat& kv,
                  const Prompts& prompts, const Lengths& lengths, const DeviceFacts& facts,
                  PlanOptions& plans, bool times = true);

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
