#include "tune/compile_lanes.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"

namespace warptune {

int default_lanes() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency()) - 1); }

namespace {
/// What goes wrong is in the result.
template <class F>
CompileResult guarded(F&& compile) {
  try {
    return {.resources = compile()};
  } catch (const ResourceError& e) {
    return {.kind = CompileResult::Kind::resource, .detail = e.what(), .resources = {}};
  } catch (const std::exception& e) {
    return {.kind = CompileResult::Kind::compile_error, .detail = e.what(), .resources = {}};
  }
}
}  // namespace

CompileResult compile_now(const Compiler& compiler, const CompileTask& task, const DeviceFacts& facts) {
  return guarded([&] { return inspect(compiler, *task.variant, *task.problem, *task.config, facts); });
}

CompileLanes::CompileLanes(const Compiler& compiler, DeviceFacts facts, std::vector<CompileTask> tasks,
                           int lanes, std::size_t ahead)
    : CompileLanes(
          [&compiler, facts = std::move(facts)](const CompileTask& task) {
            return inspect(compiler, *task.variant, *task.problem, *task.config, facts);
          },
          std::move(tasks), lanes, ahead) {}

CompileLanes::CompileLanes(Compile compile, std::vector<CompileTask> tasks, int lanes, std::size_t ahead)
    : compile_(std::move(compile)),
      tasks_(std::move(tasks)),
      ahead_(std::max<std::size_t>(ahead, 1)),
      slots_(tasks_.size()) {
  for (const CompileTask& task : tasks_) kernels_.push_back(kernels_of(task));
  const int needed = static_cast<int>(std::min<std::size_t>(tasks_.size(), static_cast<std::size_t>(lanes)));
  for (int i = 0; i < needed; ++i) lanes_.emplace_back([this] { lane(); });
}

CompileLanes::~CompileLanes() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  work_.notify_all();
}

std::vector<std::string> CompileLanes::kernels_of(const CompileTask& task) const {
  std::vector<std::string> names;
  for (const Stage* stage : active_stages(*task.variant, *task.problem, *task.config))
    names.push_back(stage->file + ": " +
                    expand_kernel_name(*task.variant, *stage, *task.problem, *task.config));
  return names;
}

/// The first waiting task, not too far ahead, none of whose kernels is being compiled.
std::optional<std::size_t> CompileLanes::next() const {
  const std::size_t end = ahead_ < tasks_.size() - taken_ ? taken_ + ahead_ : tasks_.size();
  for (std::size_t i = first_; i < end; ++i)
    if (slots_[i].state == State::waiting &&
        std::ranges::none_of(kernels_[i], [&](const std::string& k) { return busy_.contains(k); }))
      return i;
  return std::nullopt;
}

void CompileLanes::lane() {
  std::unique_lock lock(mutex_);
  for (;;) {
    while (first_ < tasks_.size() && slots_[first_].state != State::waiting) ++first_;
    if (stop_ || first_ == tasks_.size()) return;
    const auto task = next();
    if (!task) {
      work_.wait(lock);
      continue;
    }
    const std::size_t i = *task;
    slots_[i].state = State::busy;
    slots_[i].start = std::chrono::steady_clock::now();
    ready_.notify_all();
    busy_.insert(kernels_[i].begin(), kernels_[i].end());
    lock.unlock();
    CompileResult result = guarded([&] { return compile_(tasks_[i]); });
    lock.lock();
    const bool given_up = slots_[i].state == State::done;
    if (!given_up) slots_[i].result = std::move(result);
    slots_[i].state = State::done;
    for (const std::string& kernel : kernels_[i]) busy_.erase(kernel);
    work_.notify_all();
    ready_.notify_all();
    if (given_up) return;  // another lane took its place
  }
}

/// A task, and those that wait for the same kernels.
void CompileLanes::give_up(std::size_t task, const std::string& why) {
  for (std::size_t i = task; i < tasks_.size(); ++i) {
    const bool same = std::ranges::any_of(
        kernels_[i], [&](const std::string& k) { return std::ranges::count(kernels_[task], k) > 0; });
    if (i != task && !(slots_[i].state == State::waiting && same)) continue;
    slots_[i].result = {.kind = CompileResult::Kind::timeout, .detail = why, .resources = {}};
    slots_[i].state = State::done;
  }
}

CompileResult CompileLanes::take(std::size_t task, double seconds) {
  std::unique_lock lock(mutex_);
  taken_ = std::max(taken_, task);
  work_.notify_all();
  Slot& slot = slots_[task];
  ready_.wait(lock, [&] { return slot.state != State::waiting; });
  const auto limit =
      std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(seconds));
  if (!ready_.wait_until(lock, slot.start + limit, [&] { return slot.state == State::done; })) {
    give_up(task, fmt::format("did not compile within {:.4g} seconds", seconds));
    lanes_.emplace_back([this] { lane(); });
  }
  taken_ = std::max(taken_, task + 1);
  return std::move(slot.result);
}

}  // namespace warptune
