#include "harness/tune/trials.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

namespace warptune {

std::string Trials::why_none() const {
  std::map<std::string, int> counts;
  for (const Measurement& m : measurements) ++counts[std::string(name_of(m.status))];
  std::vector<std::string> parts;
  for (const auto& [status, n] : counts) parts.push_back(fmt::format("{} {}", n, status));
  std::string first = measurements.front().detail.substr(0, 200);
  std::ranges::replace(first, '\n', ' ');
  return fmt::format("no configuration is right: {} (first: {})", fmt::join(parts, ", "), first);
}

}  // namespace warptune
