// warptune: benchmarks and autotunes the kernels of LLaMA inference. Exit codes: 0 ok, 1 a check failed,
// 2 bad input.
#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/decode.h"
#include "core/error.h"
#include "results/run_info.h"

int main(int argc, char** argv) {
  using namespace warptune;
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
    add_devices(app, exit_code);
    add_list(app, exit_code);
    add_tune(app, exit_code);
    add_calibrate(app, exit_code);
    add_inspect(app, exit_code);
    add_merge(app, exit_code);
    add_decode(app, exit_code);
    add_wisdom(app, exit_code);
    add_report(app, exit_code);
    add_compare(app, exit_code);
    add_rerun(app, exit_code);
    add_bench(app, exit_code);
    add_profile(app, exit_code);
    add_counters(app, exit_code);
    add_replay(app, exit_code);
    add_worker(app, exit_code);
    try {
      app.parse(argc, argv);
    } catch (const CLI::ParseError& e) {
      if (e.get_exit_code() == 0) return app.exit(e);  // --help, --version
      fmt::print(stderr, "warptune: {}; --help shows what there is\n", e.what());
      return 2;
    }
    return exit_code;
  } catch (const InputError& e) {
    fmt::print(stderr, "warptune: {}\n", e.what());
    return 2;
  } catch (const std::exception& e) {
    fmt::print(stderr, "warptune: {}\n", e.what());
    return 1;
  }
}
