#include "harness/measure/clock_watch.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "harness/measure/statistics.h"

namespace warptune {
namespace {

std::vector<std::string> names_in(const std::string& reasons) {
  std::vector<std::string> names;
  std::istringstream in(reasons);
  for (std::string name; std::getline(in, name, '+');)
    if (!name.empty() && name != "none") names.push_back(name);
  return names;
}

void add_reasons(std::string& to, const std::string& reasons) {
  const auto have = names_in(to);
  for (const std::string& name : names_in(reasons))
    if (std::ranges::find(have, name) == have.end()) to += (to.empty() ? "" : "+") + name;
}

}  // namespace

bool is_throttling(const std::string& reasons) {
  return std::ranges::any_of(names_in(reasons), [](const std::string& name) {
    return name == "hw_slowdown" || name == "sw_thermal_slowdown" || name == "hw_thermal_slowdown" ||
           name == "hw_power_brake_slowdown";
  });
}

bool ClockWatch::throttled() {
  const double before = now_();
  if (10 * spent_ > before - start_) return last_;
  const Clocks now = device_.quick_clocks();
  spent_ += now_() - before;
  known_ = known_ || !now.throttled.empty();
  last_ = is_throttling(now.throttled);
  add_reasons(last_ ? throttling_ : notes_, now.throttled);
  // Throttled samples are discarded, so their clocks are left out.
  if (std::isfinite(now.sm_mhz) && !last_) sm_mhz_.push_back(now.sm_mhz);
  if (std::isfinite(now.mem_mhz) && !last_) mem_mhz_.push_back(now.mem_mhz);
  return last_;
}

Clocks ClockWatch::summary(bool kept_throttled) const {
  Clocks clocks = device_.clocks();
  if (!sm_mhz_.empty()) clocks.sm_mhz = median(sm_mhz_);
  if (!mem_mhz_.empty()) clocks.mem_mhz = median(mem_mhz_);
  std::string reasons = notes_;
  if (kept_throttled) add_reasons(reasons, throttling_);
  clocks.throttled = !reasons.empty() ? reasons : known_ ? "none" : "";
  return clocks;
}

}  // namespace warptune
