#pragma once
// Threads that compile configurations ahead of their measuring, so that the worker finds machine code in the
// cache on disk.
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

#include "harness/device/compile.h"

namespace warptune {

/// Whether a variant has kernels of its own to compile.
inline bool is_compiled(const Variant& variant) {
  return variant.backend == Backend::cuda && !variant.stages.empty();
}

/// A configuration to compile.
struct CompileTask {
  const Variant* variant = nullptr;
  const Problem* problem = nullptr;
  const Config* config = nullptr;
};

struct CompileResult {
  enum class Kind { ok, compile_error, resource, timeout } kind = Kind::ok;
  std::string detail;
  Resources resources;  // compile_ms: 0 where it was in the cache
};

class CompileLanes {
 public:
  using Compile = std::function<Resources(const CompileTask&)>;
  /// Up to `lanes` threads that compile at most `ahead` tasks beyond the last one taken. A kernel that
  /// several tasks share is compiled by one lane while the others go on with other kernels.
  CompileLanes(Compile compile, int lanes, std::size_t ahead);
  ~CompileLanes();
  CompileLanes(const CompileLanes&) = delete;
  CompileLanes& operator=(const CompileLanes&) = delete;

  /// Puts a task behind the others; its number, from 0. What it points to must outlive the lanes.
  std::size_t add(const CompileTask& task);
  /// Waits for the result of a task. Tasks are taken in rising order; some may be left. A task that compiles
  /// for longer than `seconds` is given up (timeout), and another lane takes the place of the one that is
  /// busy with it.
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
  void lane();
  void give_up(std::size_t task, const std::string& why);
  std::optional<std::size_t> next() const;

  const Compile compile_;
  const std::size_t ahead_;

  std::mutex mutex_;
  std::condition_variable work_, ready_;
  std::deque<Slot> slots_;      // stay where they are
  std::set<std::string> busy_;  // kernels being compiled
  std::size_t first_ = 0;       // no task before it is waiting
  std::size_t taken_ = 0;       // tasks before it were taken
  bool stop_ = false;
  std::size_t most_lanes_;
  std::vector<std::jthread> lanes_;
};

/// What compiles a task for a device. The compiler must outlive it.
CompileLanes::Compile compile_with(const Compiler& compiler, DeviceFacts facts);

/// Threads to compile with where the user does not say: all but the one that measures.
int default_lanes();

}  // namespace warptune
