// warptune: benchmarks and autotunes the kernels of LLaMA inference. Exit codes: 0 ok, 1 a check failed,
// 2 bad input.
#include <fmt/format.h>
#include <signal.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <system_error>

#include "harness/cli/commands.h"
#include "harness/cli/openmp.h"
#include "harness/core/error.h"
#include "harness/results/run_info.h"

namespace {

/// The exit code that a shell reports after SIGPIPE. Nothing is flushed: nobody reads the output.
constexpr int kClosedPipe = 128 + SIGPIPE;

bool is_closed_pipe(const std::system_error& e) { return e.code().value() == EPIPE; }

int run(int argc, char** argv) {
  using namespace warptune;
  int exit_code = 0;
  CLI::App app("Benchmarks and autotunes the kernels of LLaMA inference.", "warptune");
  app.footer(
      "Examples:\n"
      "  warptune tune configs/quick.yaml\n"
      "  warptune inspect configs/quick.yaml --arch sm_80,sm_90a\n"
      "  warptune list variants rms_norm\n"
      "'warptune COMMAND --help' describes a command; docs/cli.md has an example of each.\n"
      "Exit codes: 0 ok, 1 a check failed, 2 bad input.");
  app.set_version_flag("--version", "warptune 0.1.0 " + git_commit());
  app.require_subcommand(1);
  add_commands(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);  // --help, --version
    fmt::print(stderr, "warptune: {}\n", sentence_of(app, e));
    return 2;
  }
  if (std::fflush(stdout) != 0 || std::ferror(stdout))
    throw std::system_error(errno, std::generic_category(), "standard output cannot be written");
  return exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace warptune;
  wait_passively(argc, argv);
  try {
    return run(argc, argv);
  } catch (const InputError& e) {
    fmt::print(stderr, "warptune: {}\n", e.what());
    return 2;
  } catch (const std::system_error& e) {
    if (is_closed_pipe(e)) std::_Exit(kClosedPipe);
    fmt::print(stderr, "warptune: {}\n", e.what());
    return 1;
  } catch (const std::exception& e) {
    fmt::print(stderr, "warptune: {}\n", e.what());
    return 1;
  }
}
