#include "cli/options.h"

#include <fmt/format.h>

#include "harness/device/device.h"

namespace warptune {

void add_device(CLI::App& command, std::string& device) {
  command.add_option("--device", device, "auto (first GPU, else host), cuda:N or host")
      ->capture_default_str();
}

void add_as(CLI::App& command, std::string& device) {
  command.add_option_function<std::string>(
      "--as", [&device](const std::string& arch) { device = device_as(device, arch); }, kAsHelp);
}

void add_problem_filter(CLI::App& command, std::string& pattern) {
  command.add_option("--problem", pattern, "Only problems whose key matches this regular expression");
}

CLI::Option* add_sweep_filter(CLI::App& command, std::string& pattern) {
  return command.add_option(
      "--filter", pattern,
      "Only variants whose op/variant matches this regular expression, or whose problem does: '^linear/', "
      "'tokens=1,'");
}

void add_jobs(CLI::App& command, int& jobs) {
  command.add_option("--jobs", jobs, "Compile jobs (threads); by default all hardware threads but one")
      ->check(CLI::Range(1, 1024));
}

void add_force(CLI::App& command, bool& force) {
  command.add_flag("--force", force,
                   "Replace an existing file that is no earlier output; never an input, results or sources");
}

void add_lock_clocks(CLI::App& command, std::optional<ClockRequest>& request) {
  command
      .add_option_function<std::string>(
          "--lock-clocks", [&request](const std::string& text) { request = parse_clock_request(text); },
          "Lock the clocks of the GPUs while they are timed and reset them at the end: SM or SM,MEMORY in "
          "MHz; without a value (base) the application clocks. Needs the right to set clocks")
      ->expected(0, 1)
      ->default_str("base");
}

CLI::Validator within(double low, double high) {
  return {[=](std::string& text) {
            double value = 0;
            const bool number = CLI::detail::lexical_cast(text, value) && value >= low && value <= high;
            return number ? std::string()
                          : fmt::format("'{}' is not a number from {} to {}", text, low, high);
          },
          fmt::format("NUMBER in [{} - {}]", low, high)};
}

}  // namespace warptune
