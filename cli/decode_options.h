#pragma once
// The options of `warptune decode`.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/history_option.h"
#include "cli/kernel_option.h"
#include "harness/llama/fusion.h"
#include "harness/llama/kv_format.h"

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

}  // namespace warptune
