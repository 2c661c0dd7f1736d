// warptune: benchmarks and autotunes the kernels of LLaMA inference. Exit codes: 0 ok, 1 a check failed,
// 2 bad input.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "cli/commands.h"
#include "core/error.h"
#include "results/run_info.h"

namespace {

/// Lets OpenMP's idle threads sleep: where others load the machine, threads that spin cost each parallel loop
/// a time slice (220 ms instead of 0.1 for a token of a small model on two busy cores; an idle machine loses
/// about 5 us per loop). OpenMP reads its environment when the program is loaded, hence the second start.
/// What the user set holds; a profiler watches the process that it started.
void wait_passively(int argc, char** argv) {
  if (std::getenv("OMP_WAIT_POLICY") || std::getenv("GOMP_SPINCOUNT")) return;
  if (argc > 1 && std::string_view(argv[1]) == "profile") return;
  ::setenv("OMP_WAIT_POLICY", "passive", 1);
  std::error_code error;
  ::execv(std::filesystem::read_symlink("/proc/self/exe", error).c_str(),
          argv);  // returns where it cannot: then they spin
}

}  // namespace

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
    return exit_code;
  } catch (const InputError& e) {
    fmt::print(stderr, "warptune: {}\n", e.what());
    return 2;
  } catch (const std::exception& e) {
    fmt::print(stderr, "warptune: {}\n", e.what());
    return 1;
  }
}
