// Hidden commands, which other commands start: `warptune worker` touches the device, `warptune nvrtc`
// compiles.
#include "harness/tune/worker.h"

#include <unistd.h>

#include <memory>

#include "cli/commands.h"
#include "cli/options.h"
#include "harness/core/error.h"
#include "harness/core/line_channel.h"
#include "harness/device/nvrtc_processes.h"

namespace warptune {

void add_nvrtc(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand("nvrtc", "");
  command->group("");  // not in the help
  command->callback([&exit_code] { exit_code = run_nvrtc_process(STDIN_FILENO, answers_only_on_stdout()); });
}

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
    exit_code = run_worker(given->kernels.ops(), given->device, STDIN_FILENO, answers_only_on_stdout());
  });
}

}  // namespace warptune
