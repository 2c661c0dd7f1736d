#include "harness/measure/workbench.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "harness/core/random.h"
#include "harness/measure/agreement.h"

namespace warptune {
namespace {

constexpr double kNearLength = 0.1;  // a sample that differs this much from that length is as good
constexpr double kRotation = 80;     // size of all cold sets over the L2; reading them takes about 1 ms
constexpr double kHostRotation = 2.5;
constexpr std::int64_t kMaxSets = 256;
constexpr int kMaxLaunches = 4096;         // graph nodes per sample
constexpr int kProbedLaunches = 16;        // enough to know how long one of many takes
constexpr std::size_t kCheckedSets = 8;    // beside the verified one, after the timing of a candidate
constexpr double kRepeatSeconds = 0.010;   // for all repeats of a verified run
constexpr double kOtherWorkSeconds = 0.1;  // far longer than a host waits for an idle device

Oracle timed_oracle(StageTimes& times, Device& device, const Op& op, const Problem& problem,
                    std::uint64_t seed) {
  const StageTimer timer(times, TuningStage::reference);
  return Oracle(device, op, problem, seed);
}

}  // namespace

Workbench::Workbench(Device& device, const OpEntry& entry, Problem problem, BenchOptions options, Seconds now)
    : device_(device),
      entry_(entry),
      problem_(std::move(problem)),
      options_(std::move(options)),
      now_(std::move(now)),
      op_(with_inputs(entry.op, options_.inputs)),
      first_(timed_oracle(times_, device, op_, problem_, options_.seed)),
      second_(timed_oracle(times_, device, op_, problem_, options_.seed + 1)),
      specs_(first_.specs().begin(), first_.specs().end()),
      current_(&first_) {
  const StageTimer timer(times_, TuningStage::buffers);
  decide_cache_states(specs_, options_.cache, device_.facts().l2_bytes);
  // The cold bytes that a launch touches: less than the size of the tensors if it looks up a few rows.
  const std::int64_t cold = std::min(bytes_of(specs_, CacheState::cold),
                                     static_cast<std::int64_t>(std::ceil(cold_bytes(cost(), specs_))));
  const double l2 = static_cast<double>(device_.facts().l2_bytes);
  // L2 lines with an evict_last policy outlive any rotation, so on a GPU a sample uses each set at most once
  // and caches are flushed before it. A host has no such lines, and its caches take long to flush.
  flush_ = cold > 0 && device_.facts().backend == Backend::cuda;
  const double rotation = flush_ ? kRotation : kHostRotation;
  std::int64_t count = 1;
  if (cold > 0 && static_cast<double>(cold) < 2 * rotation * l2)
    count = static_cast<std::int64_t>(std::ceil(rotation * l2 / static_cast<double>(cold))) + 1;
  // A lookup table can be far larger than the rows that a launch touches: all sets fit a quarter of the
  // memory.
  const std::int64_t set_bytes = std::max<std::int64_t>(bytes_of(specs_, CacheState::cold), 1);
  const std::int64_t max_count =
      std::clamp<std::int64_t>(static_cast<std::int64_t>(device_.free_bytes()) / 4 / set_bytes, 1, kMaxSets);
  if (count > max_count) {
    count = max_count;
    flush_ = true;
  }
  count = -static_cast<std::int64_t>(device_.largest(-static_cast<double>(count)));
  sets_.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) sets_.emplace_back(device_, specs_, i ? &sets_.front() : nullptr);
  fill_all();
}

void Workbench::fill_all() {
  for (std::size_t i = 0; i + 1 < sets_.size(); ++i) fill_other(i);
  sets_.back().fill(current_->specs(), current_->seed());
  sums_ = device_.checksums(inputs(0, sets_.size() - 1));
}

/// Fills a set that is not the checked one.
void Workbench::fill_other(std::size_t set) {
  sets_[set].fill(specs_, options_.seed + 100 * static_cast<std::uint64_t>(sets_.size() - 1 - set));
}

std::vector<Region> Workbench::inputs(std::size_t first, std::size_t others) const {
  const auto is_input = [](const TensorSpec& spec) { return spec.role == Role::input; };
  std::vector<Region> regions = sets_.back().regions(specs_, is_input);
  for (std::size_t i = first; i < first + others; ++i)
    // The regions of the checked set already include the shared tensors.
    for (const Region& region : sets_[i].regions(specs_, [&](const TensorSpec& spec) {
           return is_input(spec) && spec.cache == CacheState::cold;
         }))
      regions.push_back(region);
  return regions;
}

std::vector<Region> Workbench::outputs() const {
  return sets_.back().regions(specs_, [](const TensorSpec& spec) { return spec.role != Role::input; });
}

Prepared Workbench::prepare(const Variant& variant, const Config& config) {
  Prepared prepared{.plan = device_.prepare(variant, problem_, config), .workspace = {}, .args = {}};
  if (const auto bytes = static_cast<std::size_t>(prepared.plan->workspace_bytes())) {
    prepared.workspace = device_.allocate(bytes);
    device_.set_bytes(prepared.workspace.data(), 0, bytes, device_.stream());
  }
  for (const TensorSet& set : sets_)
    prepared.args.push_back(entry_.op.bind(problem_, set.arguments(specs_), prepared.workspace.data()));
  return prepared;
}

void Workbench::begin() {
  if (spoiled_) fill_all();
  spoiled_ = true;  // until end()
  slowest_verified_seconds_ = other_work_seconds_ = 0;
  device_.restore_l2_policy();
  device_.reset_persisting_cache();
}

bool Workbench::changes_inputs() const {
  return std::ranges::any_of(specs_, [](const TensorSpec& spec) { return spec.role == Role::inout; });
}

void Workbench::change_inputs() {
  current_ = current_ == &first_ ? &second_ : &first_;
  sets_.back().fill(current_->specs(), current_->seed());
  std::ranges::copy(device_.checksums(inputs(0, 0)), sums_.begin());
}

Verdict Workbench::unchanged(std::size_t others) {
  if (std::string change = device_.restore_l2_policy(); !change.empty()) return {.detail = std::move(change)};
  const std::size_t most = sets_.size() - 1;
  others = std::min(others, most);
  const std::size_t first = random_bits(options_.seed, checks_++) % (most - others + 1);
  const auto regions = inputs(first, others);
  const auto now = device_.checksums(regions);
  const std::size_t checked = inputs(0, 0).size(), of_set = most > 0 ? (sums_.size() - checked) / most : 0;
  for (std::size_t i = 0; i < now.size(); ++i) {
    if (now[i] == sums_[i < checked ? i : i + first * of_set]) continue;
    for (const TensorSet& set : sets_)
      if (const std::string name = set.name_at(regions[i].data); !name.empty())
        return {.detail = fmt::format("input '{}' was changed", name)};
  }
  return {.ok = true, .detail = {}};
}

/// Waits for all streams first: earlier launches must not write the outputs after the reset.
void Workbench::reset_outputs() {
  device_.wait_for_all();
  sets_.back().reset_outputs(current_->specs(), current_->seed());
}

/// Work that a launch does not wait for, such as that of another stream, is no part of its time.
Verdict Workbench::result(const std::vector<std::uint64_t>& at_end) {
  Verdict verdict = current_->compare(sets_.back());
  if (verdict.ok && device_.checksums(outputs()) != at_end)
    return {.detail = "the outputs were written after the launch had ended"};
  return verdict;
}

Verdict Workbench::verify(const std::function<void()>& run) {
  reset_outputs();
  run();
  const double enqueued = now_();
  const auto at_end = device_.checksums(outputs());  // the next work of the stream
  slowest_verified_seconds_ = std::max(slowest_verified_seconds_, now_() - enqueued);
  Verdict verdict = result(at_end);
  if (verdict.ok) {
    const Verdict inputs = unchanged();
    verdict.ok = inputs.ok;
    verdict.detail = inputs.detail;
  }
  return on_all_ranks(device_, std::move(verdict));
}

Verdict Workbench::verify_again(int repeats, const std::function<void()>& run) {
  const double start = now_();
  const auto right = device_.checksums(outputs());
  for (int i = 0; i < repeats; ++i) {
    if (i > 0 && now_() - start > kRepeatSeconds) break;
    reset_outputs();
    run();
    const auto at_end = device_.checksums(outputs());
    // Different bytes can be correct too: another order of additions.
    Verdict verdict = on_all_ranks(device_, at_end == right ? unchanged() : result(at_end));
    if (verdict.ok) continue;
    verdict.detail = fmt::format("right in one run, wrong in another: {}", verdict.detail);
    return verdict;
  }
  return {.ok = true, .detail = {}};
}

void Workbench::replay_as_sample(CapturedGraph& graph) {
  if (flush_) device_.flush_cache(device_.stream());
  device_.time_us(graph);
}

Verdict Workbench::verify_part(const Prepared& prepared, const SampleGraph& sample) {
  if (sample.launches == 1 || changes_inputs()) return {.ok = true, .detail = {}};
  const auto launches = static_cast<std::uint32_t>(sample.launches);
  const int omitted = 1 + static_cast<int>(random_bits(options_.seed, verified_parts_++) % (launches - 1));
  const std::size_t last = set_of(omitted, sample.hot);
  const auto part = record(prepared, sample.launches, sample.hot, omitted);
  replay_as_sample(*sample.graph);
  sets_[last].fill(current_->specs(), current_->seed());
  replay_as_sample(*part);
  Verdict verdict = current_->compare(sets_[last]);
  if (last + 1 < sets_.size()) {
    fill_other(last);
    sets_.back().fill(current_->specs(), current_->seed());  // the shared tensors
  }
  if (!verdict.ok)
    verdict.detail = fmt::format("launch {} of {} of a sample: {}", sample.launches - omitted,
                                 sample.launches, verdict.detail);
  return on_all_ranks(device_, std::move(verdict));
}

void Workbench::wait_for_other_work() {
  device_.synchronize();
  const double start = now_();
  device_.wait_for_all();
  other_work_seconds_ = std::max(other_work_seconds_, now_() - start);
}

Verdict Workbench::check_inputs() {
  wait_for_other_work();
  if (other_work_seconds_ > kOtherWorkSeconds)
    return on_all_ranks(device_,
                        {.detail = fmt::format("work on another stream went on for {:.1f} s after a launch",
                                               other_work_seconds_)});
  Verdict verdict = unchanged(kCheckedSets);
  if (verdict.ok)
    if (const std::string name = sets_.back().broken_guard_band(); !name.empty())
      verdict = {.detail = fmt::format("memory outside '{}' was written", name)};
  return on_all_ranks(device_, std::move(verdict));
}

/// The set of the launch that this many launches of a graph follow.
std::size_t Workbench::set_of(int launches_after, bool hot) const {
  return sets_.size() - 1 - (hot ? 0 : static_cast<std::size_t>(launches_after) % sets_.size());
}

std::unique_ptr<CapturedGraph> Workbench::record(const Prepared& prepared, int launches, bool hot,
                                                 int omitted) {
  return device_.record([this, &prepared, launches, hot, omitted](Stream stream) {
    for (int after = launches - 1; after >= omitted; --after) {
      const std::size_t set = set_of(after, hot);
      if (omitted > 0 && after == omitted) sets_[set].reset_outputs(current_->specs(), current_->seed());
      prepared.plan->launch(prepared.args[set].data(), stream);
    }
  });
}

SampleGraph Workbench::record_sample(const Prepared& prepared, bool hot, double sample_us) {
  const int sets = hot ? 1 : static_cast<int>(sets_.size());
  const bool once = flush_ && !hot;
  const int step = once ? 1 : sets, max_launches = once ? sets : std::max(kMaxLaunches / sets, 1) * sets;
  const auto recorded = [&](int launches) {
    return SampleGraph{record(prepared, launches, hot), launches, hot};
  };
  const auto enough = [&](const SampleGraph& probe) {
    device_.time_us(*probe.graph);
    const double each = std::max(device_.time_us(*probe.graph) / probe.launches, 0.05);
    return std::clamp(static_cast<int>(std::ceil(sample_us / each / step)) * step, step, max_launches);
  };
  SampleGraph sample = recorded(1);
  wait_for_other_work();             // host code of the launch may have begun some
  const int alone = enough(sample);  // a single launch takes longer than one of many
  sample = recorded(std::min(alone, std::max(kProbedLaunches / step, 1) * step));
  if (alone == step) return sample;
  const int launches = enough(sample);
  const bool is_near = std::abs(launches - sample.launches) <= kNearLength * launches;
  return is_near ? std::move(sample) : recorded(launches);
}

double Workbench::impossible_us(Timing timing) const {
  const bool hot = timing == Timing::hot || (timing == Timing::main && options_.cache == CacheMode::hot);
  return warptune::impossible_us(device_.facts(), cost(), problem_, specs_, hot ? Timing::hot : timing);
}

}  // namespace warptune
