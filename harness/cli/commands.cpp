#include "cli/commands.h"

namespace warptune {

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
  add_worker(app, exit_code);
}

}  // namespace warptune
