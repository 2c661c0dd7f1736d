#include "cli/lock_clocks.h"

#include <string>

namespace warptune {

void add_lock_clocks(CLI::App& command, std::optional<ClockRequest>& request) {
  command
      .add_option_function<std::string>(
          "--lock-clocks", [&request](const std::string& text) { request = parse_clock_request(text); },
          "Lock the clocks of the GPUs while they are timed and reset them at the end: SM or SM,MEMORY in "
          "MHz; "
          "without a value (base) the application clocks. Needs the right to set clocks")
      ->expected(0, 1)
      ->default_str("base");
}

}  // namespace warptune
