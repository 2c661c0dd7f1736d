#include "harness/cli/commands.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

namespace warptune {
namespace {

/// Where "" is a text like others: a pattern that fits all, a variant without parameters, no heading.
constexpr std::array<std::string_view, 4> kMayBeEmpty = {"filter", "problem", "config", "title"};

/// A script gives "" where its variable is not set: that is no wish for the default. Leaves --help as it is.
void refuse_empty_texts(CLI::App& command) {
  const CLI::Validator some_text(
      [](std::string& text) { return text.empty() ? std::string("it is empty") : std::string(); }, "");
  for (CLI::Option* option : command.get_options()) {
    const auto& names = option->get_lnames();
    const bool may_be = std::ranges::any_of(
        names, [](const std::string& name) { return std::ranges::count(kMayBeEmpty, name) > 0; });
    if (option->get_type_size() > 0 && !may_be) option->check(some_text);
  }
  for (CLI::App* part : command.get_subcommands({})) refuse_empty_texts(*part);
}

}  // namespace

void add_commands(CLI::App& app, int& exit_code) {
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
  add_regret(app, exit_code);
  add_worker(app, exit_code);
  refuse_empty_texts(app);
}

}  // namespace warptune
