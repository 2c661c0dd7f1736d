// warptune: benchmarks and autotunes the kernels of LLaMA inference. Exit codes: 0 ok, 1 a check failed,
// 2 bad input.
#include <fmt/format.h>

#include <cstdio>
#include <stdexcept>

#include "harness/cli/commands.h"
#include "harness/cli/openmp.h"
#include "harness/core/error.h"
#include "harness/results/run_info.h"

int main(int argc, char** argv) {
  using namespace warptune;
  wait_passively(argc, argv);
  int exit_code = 0;
  try {
    CLI::App app("Benchmarks and autotunes the kernels of LLaMA inference.", "warptune");
    app.footer(
        "Examples:\n"
        "  warptune tune configs/quick.yaml\n"
        "  warptune inspect configs/quick.yaml --arch sm_80,sm_90a\n"
        "  warptune list variants rms_norm\n"
        "'warptune COMMAND --help' says more; docs/cli.md has an example of each command.\n"
        "Exit codes: 0 ok, 1 a check failed, 2 bad input.");
    app.set_version_flag("--version", "warptune 0.1.0 " + git_commit());
    app.require_subcommand(1);
    add_commands(app, exit_code);
    try {
      app.parse(argc, argv);
    } catch (const CLI::ParseError& e) {
      if (e.get_exit_code() == 0) return app.exit(e);  // --help, --version
      fmt::print(stderr, "warptune: {}; --help shows what there is\n", e.what());
      return 2;
    }
    if (std::fflush(stdout) != 0 || std::ferror(stdout))
      throw std::runtime_error("what it prints cannot be written: is the disk full?");
    return exit_code;
  } catch (const InputError& e) {
    fmt::print(stderr, "warptune: {}\n", e.what());
    return 2;
  } catch (const std::exception& e) {
    fmt::print(stderr, "warptune: {}\n", e.what());
    return 1;
  }
}
