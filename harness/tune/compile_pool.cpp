#include "harness/tune/compile_pool.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/core/error.h"
#include "harness/core/lookup.h"
#include "harness/measure/tuning_ranges.h"

namespace warptune {
int compile_jobs(int wanted) {
  return wanted > 0 ? wanted : std::max(1, static_cast<int>(std::thread::hardware_concurrency()) - 1);
}

namespace {
/// Turns exceptions into results.
CompileResult guarded(const CompilePool::Compile& compile, const CompileTask& task) {
  const NvtxRange problem = problem_range(*task.problem);
  const ConfigRange config(*task.problem, *task.variant, task.config);
  const NvtxRange stage(tuning_stages().compile);
  try {
    return {.resources = compile(task)};
  } catch (const ResourceError& e) {
    return {.kind = CompileResult::Kind::resource, .detail = e.what(), .resources = {}};
  } catch (const std::exception& e) {
    return {.kind = CompileResult::Kind::compile_error, .detail = e.what(), .resources = {}};
  }
}

std::vector<std::string> kernels_of(const CompileTask& task) {
  std::vector<std::string> names;
  for (const Stage* stage : active_kernels(*task.variant, *task.problem, task.config))
    names.push_back(kernel_key(*task.variant, *stage, *task.problem, task.config));
  return names;
}
}  // namespace

CompilePool::Compile compile_with(const Compiler& compiler, DeviceFacts facts) {
  if (facts.backend == Backend::host)
    return [](const CompileTask&) { return Resources{}; };  // compiled when run
  return [&compiler, facts = std::move(facts)](const CompileTask& task) {
    return inspect(compiler, *task.variant, *task.problem, task.config, facts);
  };
}

CompilePool::CompilePool(Compile compile, int jobs, std::size_t ahead)
    : compile_(std::move(compile)),
      ahead_(std::max<std::size_t>(ahead, 1)),
      max_threads_(static_cast<std::size_t>(std::max(jobs, 1))) {}

CompilePool::~CompilePool() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  work_.notify_all();
}

std::size_t CompilePool::add(const CompileTask& task) {
  Slot slot{.task = task, .kernels = kernels_of(task), .result = {}};
  const std::lock_guard lock(mutex_);
  slots_.push_back(std::move(slot));
  if (threads_.size() < max_threads_) threads_.emplace_back([this] { work(); });
  work_.notify_all();
  return slots_.size() - 1;
}

/// The first waiting task within `ahead_` whose kernels no thread compiles, at best of the current problem.
std::optional<std::size_t> CompilePool::next() const {
  const std::size_t end = std::min(taken_ + ahead_, slots_.size());
  std::optional<std::size_t> other;
  for (std::size_t i = first_; i < end; ++i) {
    const Slot& slot = slots_[i];
    if (slot.state != State::waiting ||
        std::ranges::any_of(slot.kernels, [&](const std::string& k) { return busy_.contains(k); }))
      continue;
    if (!current_ || slot.task.problem == current_) return i;
    if (!other) other = i;
  }
  return other;
}

void CompilePool::work() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    while (first_ < slots_.size() && slots_[first_].state != State::waiting) ++first_;
    const auto task = next();
    if (!task) {
      work_.wait(lock);
      continue;
    }
    Slot& slot = slots_[*task];
    slot.state = State::busy;
    slot.start = std::chrono::steady_clock::now();
    ready_.notify_all();
    busy_.insert(slot.kernels.begin(), slot.kernels.end());
    lock.unlock();
    CompileResult result = guarded(compile_, slot.task);
    lock.lock();
    const bool timed_out = slot.state == State::done;
    if (!timed_out) slot.result = std::move(result);
    slot.state = State::done;
    for (const std::string& kernel : slot.kernels) busy_.erase(kernel);
    work_.notify_all();
    ready_.notify_all();
    if (timed_out) return;  // another thread replaced this one
  }
}

/// Also the tasks that wait for the same kernels.
void CompilePool::time_out(std::size_t task, const std::string& why) {
  for (std::size_t i = task; i < slots_.size(); ++i) {
    const bool same = std::ranges::any_of(
        slots_[i].kernels, [&](const std::string& k) { return contains(slots_[task].kernels, k); });
    if (i != task && !(slots_[i].state == State::waiting && same)) continue;
    slots_[i].result = {.kind = CompileResult::Kind::timeout, .detail = why, .resources = {}};
    slots_[i].state = State::done;
  }
}

CompileResult CompilePool::take(std::size_t task, double seconds) {
  std::unique_lock lock(mutex_);
  taken_ = std::max(taken_, task);
  Slot& slot = slots_[task];
  current_ = slot.task.problem;
  work_.notify_all();
  ready_.wait(lock, [&] { return slot.state != State::waiting; });
  const auto limit =
      std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(seconds));
  if (!ready_.wait_until(lock, slot.start + limit, [&] { return slot.state == State::done; })) {
    time_out(task, fmt::format("did not compile within {:.4g} seconds", seconds));
    ++max_threads_;
    threads_.emplace_back([this] { work(); });
  }
  taken_ = std::max(taken_, task + 1);
  return std::move(slot.result);
}

}  // namespace warptune
