#include "harness/tune/worker_process.h"

#include <algorithm>

#include "harness/core/stopwatch.h"
#include "harness/tune/protocol.h"

namespace warptune {
namespace {
constexpr std::size_t kStderrTail = 400;
}  // namespace

WorkerProcess::Reply WorkerProcess::receive(double seconds) {
  const Stopwatch watch;
  for (;;) {
    const LineProcess::Answer answer = process_.next_line(seconds - watch.seconds());
    if (answer.kind == LineProcess::Answer::Kind::line) {
      if (auto message = message_of(answer.text)) return {.message = std::move(*message)};
      continue;
    }
    std::string why = "the worker " + answer.text;
    if (const std::string& errors = process_.errors(); !errors.empty())
      why += ": " + errors.substr(errors.size() - std::min(errors.size(), kStderrTail));
    return {.kind = answer.kind, .why = std::move(why), .is_killed = answer.is_killed};
  }
}

}  // namespace warptune
