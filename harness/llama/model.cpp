#include "harness/llama/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <stdexcept>

#include "harness/core/error.h"
#include "harness/core/lookup.h"
#include "harness/llama/fusion_choice.h"
#include "harness/llama/step_problem.h"
#include "kernels/advance/args.h"
#include "kernels/argmax/args.h"
#include "kernels/linear/args.h"
#include "kernels/top_k/args.h"

namespace warptune {
namespace {

/// The table of layers with RoPE, and that of layers without.
std::vector<float> frequencies_and_zeros(const ModelConfig& config, int positions) {
  std::vector<float> table = rope_inv_freq(config.head_dim, config.rope, positions);
  table.resize(2 * table.size());
  return table;
}

Buffer rows(Device& device, DType dtype, int batch, int width) {
  return device.allocate(static_cast<std::size_t>(batch) * static_cast<std::size_t>(width) * size_of(dtype));
}

ModelOptions completed(const ModelConfig& config, ModelOptions options) {
  options.kv = with_window(options.kv, config.window);
  if (options.positions == 0) options.positions = options.capacity;
  return options;
}

}  // namespace

Model::Model(Device& device, const ModelConfig& config, const Weights& weights, PlanBook& book,
             ModelOptions options)
    : device_(device),
      config_(config),
      weights_(weights),
      book_(book),
      options_(completed(config, options)),
      kv_(device, config, weights.dtype, options_.kv, config.layers, options.batch, options.capacity),
      state_(device, options.batch, options.max_steps + 1, options.sampling.seed,
             options.sampling.penalizes() ? config.vocab : 0),
      activations_(device, config, weights.dtype, options.batch),
      logits_(rows(device, weights.dtype, options.batch, config.vocab)),
      own_logits_(splits_vocabulary(config) ? rows(device, weights.dtype, options.batch, head_rows(config))
                                            : Buffer()),
      inv_freq_(uploaded(
          device, std::as_bytes(std::span<const float>(frequencies_and_zeros(config, options_.positions))))) {
  for (int layer = 0; layer < config.layers; ++layer)
    layer_ranges_.emplace_back(NvtxKind::layer, "", [&] { return fmt::format("layer {}", layer); });
}

/// Enqueues the calls, each in a range of its plan, those of a layer in a range of the layer.
void Model::launch(std::span<const Call> calls, LaunchWatcher* watcher) {
  if (watcher) watcher->begin(calls);
  for (auto call = calls.begin(); call != calls.end();) {
    const int layer = call->layer;
    const NvtxRange layer_range(layer < 0 ? NvtxName() : layer_ranges_[layer]);
    for (; call != calls.end() && call->layer == layer; ++call) {
      const NvtxRange range(call->entry->range);
      call->launch(device_.stream());
      if (watcher) watcher->launched(*call);
    }
  }
  if (watcher) watcher->end();
}

/// From the final hidden states to the next tokens.
std::vector<Call> Model::tail(const Fusion& fusion) const {
  const int batch = options_.batch;
  const ModelProblems problems(book_.ops(), config_, weights_.dtype);
  const bool is_split = splits_vocabulary(config_);
  std::vector<Call> calls = {Assembly::lm_head(config_, weights_, book_, activations_, batch,
                                               (is_split ? own_logits_ : logits_).data(),
                                               state_.ids.as<int>(), fusion)};
  if (is_split)
    calls.push_back(
        Assembly::all_gather(config_, weights_.dtype, book_, batch, own_logits_.data(), logits_.data()));
  if (options_.sampling.greedy && !fusion.argmax) {
    auto entry = book_.get(problems.argmax(batch));
    const ArgmaxArgs args{.logits = logits_.data(),
                          .ids = state_.ids.as<int>(),
                          .workspace = entry->workspace.data(),
                          .batch = batch};
    calls.push_back({std::move(entry), Args(args)});
  } else if (!options_.sampling.greedy) {
    const Sampling& sampling = options_.sampling;
    auto entry = book_.get(problems.top_k(batch, sampling.k, sampling.penalizes(), sampling.min_p > 0));
    const TopKArgs args{.logits = logits_.data(),
                        .rng = state_.rng.as<unsigned long long>(),
                        .ids = state_.ids.as<int>(),
                        .workspace = entry->workspace.data(),
                        .batch = batch,
                        .temperature = sampling.temperature,
                        .p = sampling.p,
                        .min_p = sampling.min_p};
    calls.push_back({std::move(entry), sampling.penalizes()
                                           ? Args(PenalizedTopKArgs{args, sampling.repetition_penalty,
                                                                    state_.seen.as<unsigned>()})
                                           : Args(args)});
  }
  calls.push_back(
      {book_.get(problems.advance(batch)), Args(AdvanceArgs{.ids = state_.ids.as<int>(),
                                                            .positions = state_.positions.as<int>(),
                                                            .lengths = state_.lengths.as<int>(),
                                                            .transcript = state_.transcript.as<int>(),
                                                            .step = state_.step.as<int>(),
                                                            .rng = state_.rng.as<unsigned long long>(),
                                                            .batch = batch,
                                                            .max_steps = state_.columns(),
                                                            .eos = options_.eos})});
  return calls;
}

Fusion Model::fusion_for(std::int64_t context) const {
  const ModelProblems problems(book_.ops(), config_, weights_.dtype, options_.kv);
  expect_possible_fusions(options_.fuse, problems, config_, weights_.dtype);
  FusionChoice wanted = options_.fuse;
  for (std::size_t i = 0; i < kFusionOptions.size(); ++i)
    if (std::optional<bool>& flag = *wanted.all()[i]; !flag) flag = book_.step_option(kFusionOptions[i].name);
  const auto prefers = [&](auto some, auto others) { return book_.prefers(some, others); };
  const Fusion fusion =
      choose_fusion(wanted, problems, prefers, options_.batch, context, options_.sampling.greedy);
  if (options_.fuse.o.value_or(false) && !fusion.o)
    throw InputError(
        "--fuse-o on needs batch 1, --fuse-append on, --fuse-norm on, --split-norm off, and a model whose q, "
        "k, v and o have no bias and whose o has at most {} MB",
        kMaxFusedOBytes / 1'000'000);
  return fusion;
}

Model::Step& Model::step_for(std::int64_t length) {
  const std::int64_t context = context_bucket(length);
  Step& step = steps_[context];
  if (!step.calls.empty()) return step;
  const int batch = options_.batch;
  const StepScope scope(book_, step_problem(config_, weights_.dtype, batch, context, options_.kv));
  const Fusion fusion = fusion_for(context);
  Assembly assembly(config_, weights_, inv_freq_.as<float>(), book_, activations_, batch, fusion);
  assembly.begin(state_.ids.as<int>(), state_.bad_token.as<int>());
  const RowPositions rows = {state_.sequence.as<int>(), state_.positions.as<int>(), state_.lengths.as<int>()};
  for (int layer = 0; layer < config_.layers; ++layer) {
    assembly.qkv(layer);
    if (!fusion.append) assembly.rope_append(layer, kv_, kv_.view(layer), batch, rows);
    assembly.attention_decode(layer, kv_, batch, rows, context);
    assembly.finish_layer(layer);
  }
  step.calls = assembly.take();
  std::ranges::move(tail(fusion), std::back_inserter(step.calls));
  step.range = NvtxName(NvtxKind::graph, "", [&] {
    return fmt::format("graph {} batch={} context={}", config_.name, batch, context);
  });
  return step;
}

std::span<const Call> Model::step_calls(std::int64_t length) { return step_for(length).calls; }

CapturedGraph& Model::step_graph(std::int64_t length) {
  Step& step = step_for(length);
  if (!step.graph) {
    warm_up(step.calls);
    step.graph = device_.record([&calls = step.calls](Stream stream) {
      for (const Call& call : calls) call.launch(stream);
    });
  }
  return *step.graph;
}

Model::TakenStep Model::take_step(std::int64_t length) {
  const std::int64_t context = context_bucket(length);
  try {
    step_graph(length);
  } catch (...) {
    steps_.erase(context);  // what was assembled of it
    throw;
  }
  return steps_.extract(context);
}

/// Loads the kernels before capture: launches the step with every sequence finished, so that it does not
/// write to the cache, and restores the state.
void Model::warm_up(std::span<const Call> calls) {
  if (device_.facts().backend == Backend::host) return;
  const DecodeState::Snapshot before = state_.save();
  state_.set(std::vector<int>(static_cast<std::size_t>(options_.batch), 0), 0);
  const NvtxRange range(NvtxKind::phase, "", [] { return "warm up step"; });
  launch(calls);
  device_.synchronize();
  state_.restore(before);
}

double Model::prefill(std::span<const std::vector<int>> prompts) {
  if (static_cast<int>(prompts.size()) != options_.batch)
    throw std::logic_error("prefill needs one prompt per sequence");
  std::vector<int> lengths, last;
  for (std::size_t b = 0; b < prompts.size(); ++b) {
    if (prompts[b].empty()) throw InputError("prompt {} is empty", b);
    for (const int id : prompts[b])
      if (id < 0 || id >= config_.vocab)
        throw InputError("prompt {} holds token {}; the vocabulary has {}", b, id, config_.vocab);
    if (static_cast<int>(prompts[b].size()) >= options_.capacity)
      throw InputError("prompt {} has {} tokens; the KV cache holds {}", b, prompts[b].size(),
                       options_.capacity);
    lengths.push_back(static_cast<int>(prompts[b].size()));
    last.push_back(prompts[b].back());
  }
  if (!check_) check_.emplace(device_, weights_.dtype);
  check_->clear();
  kv_.release();
  kv_.reserve(lengths);
  const auto set_state = [&] {
    state_.clear();
    state_.set(lengths, 0);
    state_.set_ids(last);
    state_.set_seen(prompts);
  };
  set_state();
  const Prefill prompt(device_, config_, weights_, kv_, inv_freq_.as<float>(), book_, prompts,
                       activations_.rows_a.data(), state_.bad_token.as<int>());
  std::vector<Call> calls(prompt.calls().begin(), prompt.calls().end());
  std::ranges::move(tail({}), std::back_inserter(calls));
  device_.synchronize();
  if (device_.facts().backend == Backend::cuda) {  // the first launches load kernels and are not timed
    const NvtxRange range(NvtxKind::phase, "", [] { return "warm up prefill"; });
    launch(calls);
    set_state();
  }
  const NvtxRange range(NvtxKind::phase, "", [&] {
    return fmt::format("prefill batch={} tokens={}", options_.batch,
                       std::accumulate(lengths.begin(), lengths.end(), 0));
  });
  const auto start = std::chrono::steady_clock::now();
  launch(calls, watcher_);
  device_.synchronize();
  const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - start;
  for (int& length : lengths) ++length;
  keys_ = lengths;
  sampled_ = 0;
  check_logits();
  sampled_ = 1;
  return time.count();
}

/// Enqueues the check of the tokens just sampled, the column sampled_ of the transcript. It is outside of the
/// captured step, whose time is measured.
void Model::check_logits() {
  if (!check_ || sampled_ >= state_.columns()) return;
  check_->enqueue({.logits = logits_.data(),
                   .sampled = state_.transcript.as<int>(),
                   .batch = options_.batch,
                   .vocab = config_.vocab,
                   .sampled_stride = state_.columns(),
                   .step = sampled_});
}

std::optional<LogitsCheck::Found> Model::bad_logits() const {
  return check_ ? check_->found() : std::nullopt;
}

void Model::start_from(const Model& other) {
  kv_.copy_from(other.kv_);
  state_.restore(other.state_.save());
  keys_ = other.keys_;
  sampled_ = other.sampled_;
}

void Model::step() {
  if (longest() > options_.capacity)
    throw InputError("the KV cache holds {} tokens per sequence; it is full", options_.capacity);
  kv_.reserve(keys_);
  const NvtxRange range(NvtxKind::phase, "", [&] { return fmt::format("step {}", sampled_); });
  if (options_.graph && !watcher_) {
    CapturedGraph& graph = step_graph(longest());
    const NvtxRange replay(step_range(longest()));
    graph.launch(device_.stream());
  } else {
    launch(step_calls(longest()), watcher_);
  }
  check_logits();
  for (int& keys : keys_) ++keys;
  ++sampled_;
}

void Model::prepare_steps(int count) {
  if (count == 0) return;
  std::vector<int> last = keys_;
  for (int& keys : last) keys = std::min(keys + count - 1, options_.capacity);
  kv_.reserve(last);
  for (int i = 0; i < count; ++i)
    if (options_.graph)
      step_graph(longest() + i);
    else
      step_calls(longest() + i);
}

int Model::longest() const { return *std::ranges::max_element(keys_); }

std::vector<float> Model::logits() const {
  std::vector<std::byte> raw(logits_.bytes());
  device_.download(raw.data(), logits_.data(), raw.size());
  std::vector<float> values(raw.size() / size_of(weights_.dtype));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(load(weights_.dtype, raw.data(), static_cast<std::int64_t>(i)));
  return values;
}

bool Model::all_finished() const {
  return options_.eos >= 0 && std::ranges::all_of(state_.get_lengths(), [](int n) { return n == 0; });
}

std::vector<std::vector<int>> Model::transcript() const {
  auto rows = sampled();
  for (auto& row : rows) {
    const auto end = std::ranges::find_if(
        row, [&](int id) { return id < 0 || (options_.eos >= 0 && contains(config_.eos, id)); });
    row.erase(end != row.end() && *end >= 0 ? end + 1 : end, row.end());
  }
  return rows;
}

void Model::pin(std::span<const int> keys) {
  if (static_cast<int>(keys.size()) != options_.batch)
    throw std::logic_error("pin needs the keys of each sequence");
  keys_.assign(keys.begin(), keys.end());
  kv_.reserve(keys_);
  state_.set(keys_, 0);
}

void Model::pin(int context) { pin(std::vector<int>(static_cast<std::size_t>(options_.batch), context)); }

}  // namespace warptune
