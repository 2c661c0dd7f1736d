#pragma once
// One process of a worker, as its parent sees it.
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/core/line_process.h"

namespace warptune {

class WorkerProcess {
 public:
  /// A message, or why there is none: the process is late, or has ended.
  struct Reply {
    LineProcess::Answer::Kind kind = LineProcess::Answer::Kind::line;
    nlohmann::json message = {};
    std::string why = {};
    bool is_killed = false;  // by a SIGKILL of someone else
  };

  WorkerProcess(std::vector<std::string> words, std::vector<std::string> environment)
      : process_(std::move(words), std::move(environment)) {}

  void send(const nlohmann::json& message) { process_.send(message.dump()); }
  /// The next message. Skips lines that a library prints.
  Reply receive(double seconds);

 private:
  LineProcess process_;
};

}  // namespace warptune
