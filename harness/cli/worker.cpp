// warptune worker (hidden): the process that `tune` starts to touch the device.
#include "harness/tune/worker.h"

#include <unistd.h>

#include <memory>

#include "harness/cli/commands.h"
#include "variants/table.h"

namespace warptune {

void add_worker(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand("worker", "");
  command->group("");  // not in the help
  const auto device = std::make_shared<std::string>("auto");
  command->add_option("--device", *device);
  command->callback([device, &exit_code] {
    // Output of libraries must not mix with the answers.
    const int answers = ::dup(STDOUT_FILENO);
    ::dup2(STDERR_FILENO, STDOUT_FILENO);
    exit_code = run_worker(ops(), *device, STDIN_FILENO, answers);
  });
}

}  // namespace warptune
