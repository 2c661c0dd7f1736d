#include "harness/results/sweep_name.h"

#include <regex>

namespace warptune {

std::string fault_of_sweep_name(const std::string& name) {
  static const std::regex good("[A-Za-z0-9_-][A-Za-z0-9._-]*");
  static const std::regex taken(".*\\.([0-9]+|samples|counters)|decode|.*peers.*");
  constexpr std::size_t kMost = 128;
  if (name.size() > kMost || !std::regex_match(name, good))
    return "it names a file: at most 128 letters, digits, '.', '_' and '-' only";
  if (std::regex_match(name, taken))
    return "it must not end in '.NUMBER', '.samples' or '.counters', hold 'peers' or be 'decode', which name "
           "other "
           "files";
  return {};
}

}  // namespace warptune
