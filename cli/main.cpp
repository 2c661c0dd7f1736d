// warptune: benchmarks and autotunes the kernels of LLaMA inference. Exit codes: 0 ok, 1 a check failed,
// 2 bad input.
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <string_view>
#include <system_error>

#include "cli/commands.h"
#include "cli/standard_streams.h"
#include "harness/core/error.h"
#include "harness/core/print.h"
#include "harness/results/run_info.h"

namespace {

/// Lets idle threads sleep. On a loaded machine, threads that spin cost each parallel loop a time slice (220
/// ms instead of 0.1 ms for a token of a small model on two busy cores); on an idle machine, sleeping costs
/// about 5 us per loop. OpenMP reads its environment when the program is loaded, so this starts the program a
/// second time. Settings of the user win. `profile` is not started again: a profiler watches the process it
/// started.
void wait_passively(int argc, char** argv) {
  if (std::getenv("OMP_WAIT_POLICY") || std::getenv("GOMP_SPINCOUNT")) return;
  if (argc > 1 && std::string_view(argv[1]) == "profile") return;
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (program.filename().string().starts_with("ld-")) return;  // started through the dynamic loader
  ::setenv("OMP_WAIT_POLICY", "passive", 1);
  ::execv(program.c_str(), argv);  // returns only if it fails; then threads spin
}

/// The exit code that a shell reports after SIGPIPE. Nothing is flushed: nobody reads the output.
constexpr int kClosedPipe = 128 + SIGPIPE;

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
  app.set_version_flag("--version", "warptune " + program_version() + " " + git_commit());
  app.require_subcommand(1);
  add_commands(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() != 0) throw InputError(sentence_of(app, e));
    app.exit(e);  // --help, --version
  }
  flush_stdout();
  return exit_code;
}

/// Reports an error that ends the program; returns the exit code.
int report(const std::exception& e, int exit_code) {
  warptune::print_error(e.what());
  return exit_code;
}

/// A path that no file can have, or that the user may not read, is bad input wherever it is used.
bool is_wrong_path(const std::error_code& code) {
  return code == std::errc::filename_too_long || code == std::errc::too_many_symbolic_link_levels ||
         code == std::errc::not_a_directory || code == std::errc::permission_denied;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace warptune;
  open_standard_streams();
  wait_passively(argc, argv);
  try {
    return run(argc, argv);
  } catch (const InputError& e) {
    return report(e, 2);
  } catch (const std::filesystem::filesystem_error& e) {
    print_error("'{}': {}", e.path1().string(), e.code().message());
    return is_wrong_path(e.code()) ? 2 : 1;
  } catch (const std::system_error& e) {
    if (e.code().value() == EPIPE && stdout_is_unread()) std::_Exit(kClosedPipe);
    return report(e, 1);
  } catch (const std::bad_alloc&) {
    print_error("the memory of this machine does not suffice");
    return 1;
  } catch (const std::exception& e) {
    return report(e, 1);
  }
}
