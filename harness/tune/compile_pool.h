#pragma once
// Compiles configurations ahead of their measurement on a pool of threads, so that the worker finds machine
// code in the cache on disk.
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "harness/device/nvrtc_processes.h"

namespace warptune {

/// Whether a variant has kernels of its own to compile.
inline bool is_compiled(const Variant& variant) {
  return variant.backend == Backend::cuda && !variant.stages.empty();
}

/// A configuration to compile.
struct CompileTask {
  const Variant* variant = nullptr;
  const Problem* problem = nullptr;
  Config config = {};
};

struct CompileResult {
  enum class Kind { ok, compile_error, resource, timeout } kind = Kind::ok;
  std::string detail;
  Resources resources;  // compile_ms is 0 where the code was in the cache
};

class CompilePool {
 public:
  using Compile = std::function<Resources(const CompileTask&)>;
  /// Starts up to `jobs` threads. They compile at most `ahead` tasks beyond the highest one taken, first the
  /// ones of the same problem. One thread
  /// compiles a kernel that several tasks share; the others go on with other kernels.
  CompilePool(Compile compile, int jobs, std::size_t ahead);
  ~CompilePool();
  CompilePool(const CompilePool&) = delete;
  CompilePool& operator=(const CompilePool&) = delete;

  /// Appends a task and returns its number, counted from 0. What the task points to must outlive the pool.
  std::size_t add(const CompileTask& task);
  /// Waits for the result of a task, which may be taken once. Any order will do. A task that
  /// compiles for longer than `seconds` times out, and a new thread replaces the one that compiles it.
  CompileResult take(std::size_t task, double seconds);

 private:
  enum class State { waiting, busy, done };
  struct Slot {
    CompileTask task;
    std::vector<std::string> kernels;  // their names
    State state = State::waiting;
    std::chrono::steady_clock::time_point start{};  // when it became busy
    CompileResult result;
  };
  void work();
  void time_out(std::size_t task, const std::string& why);
  std::optional<std::size_t> next() const;

  const Compile compile_;
  const std::size_t ahead_;

  std::mutex mutex_;
  std::condition_variable work_, ready_;
  std::deque<Slot> slots_;            // a deque keeps references valid
  std::set<std::string> busy_;        // kernels being compiled
  std::size_t first_ = 0;             // no task before it is waiting
  std::size_t taken_ = 0;             // no task from it on was taken
  const Problem* current_ = nullptr;  // of the last task taken: its tasks come first
  bool stop_ = false;
  std::size_t max_threads_;
  std::vector<std::jthread> threads_;
};

/// Processes for compile jobs, which end a compilation that hangs: later than CompilePool::take() gives up.
inline NvrtcCall nvrtc_for(std::filesystem::path program, double compile_seconds) {
  return nvrtc_in_processes(std::move(program), 2 * compile_seconds);
}
/// The function that compiles a task for a device. The compiler must outlive it.
CompilePool::Compile compile_with(const Compiler& compiler, DeviceFacts facts);

/// The threads that compile: `wanted`, or where it is 0 all hardware threads but the one that measures.
int compile_jobs(int wanted);

}  // namespace warptune
