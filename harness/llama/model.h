#pragma once
// A LLaMA that runs on plans: prefill, then one token per step and sequence.
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "harness/device/nvtx.h"
#include "harness/llama/decode_state.h"
#include "harness/llama/logits_check.h"
#include "harness/llama/prefill.h"
#include "harness/llama/sampling.h"

namespace warptune {

struct ModelOptions {
  int batch = 1;
  int capacity = 0;   // tokens per sequence in the KV cache
  int positions = 0;  // tokens of the longest sequence of the run, which longrope depends on; 0: capacity
  int max_steps = 0;  // decode steps, after the first token
  Sampling sampling = {};
  int eos = -1;  // below 0: sequences never finish
  FusionChoice fuse = {};
  KvFormat kv = {};
  bool graph = true;  // replay captured steps (unless watched), else launch one by one
};

class Model {
 public:
  struct Step {
    std::vector<Call> calls;
    std::unique_ptr<CapturedGraph> graph;
    NvtxName range;
  };
  using TakenStep = std::map<std::int64_t, Step>::node_type;

  /// `config`, `weights` and `book` must outlive the model.
  Model(Device& device, const ModelConfig& config, const Weights& weights, PlanBook& book,
        ModelOptions options);

  /// Fills the cache with the prompts and samples the first token of each. Returns its time in microseconds.
  /// Throws InputError for an empty prompt or an id outside the vocabulary.
  double prefill(std::span<const std::vector<int>> prompts);
  /// Takes the KV cache and the state of another model with equal options, as if it had run the same prompts
  /// and steps.
  void start_from(const Model& other);
  /// Enqueues a step: feeds the last sampled (or forced) tokens and samples the next ones.
  void step();
  /// Feeds these tokens in the next step instead of the sampled ones.
  void force(std::span<const int> ids) { state_.set_ids(ids); }
  /// [batch, vocab] of the last prefill or step.
  std::vector<float> logits() const;
  std::vector<int> ids() const { return state_.get_ids(); }
  bool all_finished() const;
  /// The first step since the last prefill() whose logits were not finite. Waits for the device.
  std::optional<LogitsCheck::Found> bad_logits() const;
  /// The tokens of each sequence after its prompt, up to an eos.
  std::vector<std::vector<int>> transcript() const;

  /// `watcher` sees the launches of prefills and steps from now on; null: none does.
  void watch(LaunchWatcher* watcher) { watcher_ = watcher; }
  /// The launches of a step whose longest sequence has `length` keys.
  std::span<const Call> step_calls(std::int64_t length);
  /// The tokens sampled so far, of each sequence; -1 after its end.
  std::vector<std::vector<int>> sampled() const { return state_.get_transcript(sampled_); }
  /// Sets the next step to exactly keys[b] keys in sequence b, or to `context` in every sequence.
  void pin(std::span<const int> keys);
  void pin(int context);
  /// The captured step for that context.
  CapturedGraph& step_graph(std::int64_t length);
  /// Captures that step and hands it over: the model assembles it anew when it needs it again.
  TakenStep take_step(std::int64_t length);
  /// The range of a replay of it in a profiler's timeline: "graph MODEL batch=B context=N".
  const NvtxName& step_range(std::int64_t length) { return step_for(length).range; }
  /// Compiles and captures what the next `count` steps launch, and allocates their pages of the KV cache, so
  /// that nothing but launches lies between these steps.
  void prepare_steps(int count);

  const ModelOptions& options() const { return options_; }
  const ModelConfig& config() const { return config_; }
  const Weights& weights() const { return weights_; }
  Device& device() const { return device_; }

 private:
  std::vector<Call> tail(const Fusion& fusion) const;
  Fusion fusion_for(std::int64_t context) const;
  int longest() const;
  Step& step_for(std::int64_t length);
  void warm_up(std::span<const Call> calls);
  void check_logits();
  /// `watcher`, if there is one, sees each launch.
  void launch(std::span<const Call> calls, LaunchWatcher* watcher = nullptr);

  Device& device_;
  const ModelConfig& config_;
  const Weights& weights_;
  PlanBook& book_;
  ModelOptions options_;
  KvCache kv_;
  DecodeState state_;
  Activations activations_;             // those of one token per sequence
  Buffer logits_;                       // [batch, vocab]
  Buffer own_logits_;                   // [batch, head_rows()]: logits of this rank, where ranks split them
  std::optional<LogitsCheck> check_;    // checks what prefill() and step() sample
  Buffer inv_freq_;                     // [2, head_dim / 2], float: the frequencies, and zeros
  std::map<std::int64_t, Step> steps_;  // by context bucket
  std::vector<NvtxName> layer_ranges_;
  std::vector<int> keys_;  // upper bound, per sequence, of the keys that the next step attends to
  LaunchWatcher* watcher_ = nullptr;
  int sampled_ = 0;  // tokens per sequence so far
};

}  // namespace warptune
