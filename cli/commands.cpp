#include "cli/commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "harness/core/brief.h"
#include "harness/core/lookup.h"

namespace warptune {
namespace {

/// Options that take "": a pattern that matches everything, a variant without parameters, no heading.
constexpr std::array<std::string_view, 4> kMayBeEmpty = {"filter", "problem", "config", "title"};

/// A script passes "" if its variable is not set. That must not select the default.
void refuse_empty_texts(CLI::App& command) {
  const CLI::Validator some_text(
      [](std::string& text) { return text.empty() ? std::string("it is empty") : std::string(); }, "");
  for (CLI::Option* option : command.get_options()) {
    const auto& names = option->get_lnames();
    const bool may_be =
        std::ranges::any_of(names, [](const std::string& name) { return contains(kMayBeEmpty, name); });
    if (option->get_type_size() > 0 && !may_be) option->check(some_text);
  }
  for (CLI::App* part : command.get_subcommands({})) refuse_empty_texts(*part);
}

/// The innermost command that the arguments select.
const CLI::App& last_command(const CLI::App& app) {
  const CLI::App* command = &app;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().back();
  return *command;
}

/// The command as it was typed: "warptune wisdom show".
std::string path_of(const CLI::App& command) {
  return command.get_parent() ? path_of(*command.get_parent()) + " " + command.get_name()
                              : command.get_name();
}

std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

std::vector<std::string> command_names(const CLI::App& parent) {
  std::vector<std::string> names;
  for (const CLI::App* command :
       parent.get_subcommands([](const CLI::App* c) { return !c->get_group().empty(); }))
    names.push_back(command->get_name());
  return names;
}

}  // namespace

std::string sentence_of(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& command = last_command(app);
  const auto commands = command_names(command);
  const std::string path = path_of(command);
  for (const std::string& given : app.remaining(true)) {
    if (given.starts_with("-")) {
      const std::string name = given.substr(0, given.find('='));
      const std::string near = near_miss(name, option_names(command));
      return fmt::format("'{}' has no option '{}'{}", path, brief(name),
                         near.empty() ? fmt::format("; '{} --help' lists them", path) : near);
    }
    if (!commands.empty())
      return fmt::format("'{}' has no subcommand '{}'{}", path, brief(given), did_you_mean(given, commands));
  }
  return fmt::format("{}; '{} --help' shows the arguments", error.what(), path);
}

void add_commands(CLI::App& app, int& exit_code) {
  for (AddCommand* add : {add_devices,  add_list,      add_tune,     add_calibrate, add_inspect, add_merge,
                          add_decode,   add_wisdom,    add_quantize, add_export,    add_report,  add_compare,
                          add_history,  add_bisect,    add_rerun,    add_bench,     add_profile, add_counters,
                          add_simulate, add_export_t4, add_trace,    add_new,       add_worker,  add_nvrtc})
    add(app, exit_code);
  refuse_empty_texts(app);
}

}  // namespace warptune
