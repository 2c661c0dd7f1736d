#pragma once
// The table of exported plans: boxes of problems, and the plan that each takes.
#include <string>
#include <vector>

#include "harness/export/args_layout.h"
#include "harness/export/export_choice.h"
#include "harness/export/launch_model.h"

namespace warptune {

/// The plan of all problems in a box. The box's upper corner is `problem`.
struct ExportedPlan {
  Problem problem;
  DimBox box;
  ExportChoice choice;
  LaunchModel launch;
  ArgsLayout args;
};

/// What the table covers besides the problems themselves: values of dims of work.
struct Cover {
  std::string dim;
  std::int64_t from = 1, to = 1;
};
/// "tokens=1:4096". Throws InputError.
Cover parse_cover(const std::string& text);

struct PlanTable {
  std::vector<ExportedPlan> plans;
  std::vector<std::string> left_out;  // problems that cannot be exported, each with the reason
  std::vector<std::string>
      lost_winners;  // winners of this architecture, for which nothing or another plan is there
};

/// The table of some problems. Values of a dim of work are cut where a problem has one, and with `covers` at
/// powers of two inside of their ranges, from each cut down to the one below. A cell with a problem at its
/// upper corner takes the choice for that problem, as far down as its kernels serve; with `covers` every cell
/// is filled, and what a choice does not serve is cut and chosen again. Throws InputError where a cover names
/// no dim of work or the table gets too long.
PlanTable make_plan_table(ExportChooser& chooser, const std::vector<Problem>& problems,
                          const std::vector<Cover>& covers);

}  // namespace warptune
