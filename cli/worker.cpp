// warptune worker (hidden): the process that `tune` starts to touch the device.
#include "harness/tune/worker.h"

#include <fcntl.h>
#include <unistd.h>

#include <memory>

#include "cli/commands.h"
#include "cli/options.h"
#include "harness/core/error.h"

namespace warptune {

void add_worker(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand("worker", "");
  command->group("");  // not in the help
  struct Given {
    std::string device = "auto";
    KernelOption kernels;
    std::string kernels_hash;
  };
  const auto given = std::make_shared<Given>();
  command->add_option("--device", given->device);
  given->kernels.add_to(*command);
  command->add_option("--kernels-hash", given->kernels_hash);
  given->kernels.add_reference_seconds_to(*command);
  command->callback([given, &exit_code] {
    if (given->kernels.files_as_read().hash != given->kernels_hash)
      throw InputError("a file with kernels has changed since the sweep began; start the sweep again");
    // Output of libraries must not mix with the answers.
    const int answers = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
    ::dup2(STDERR_FILENO, STDOUT_FILENO);
    exit_code = run_worker(given->kernels.ops(), given->device, STDIN_FILENO, answers);
  });
}

}  // namespace warptune
