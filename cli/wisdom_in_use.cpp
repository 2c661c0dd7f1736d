#include "cli/wisdom_in_use.h"

#include <fmt/format.h>

#include <cstdlib>
#include <map>

#include "harness/core/error.h"
#include "harness/core/input_file.h"
#include "harness/core/print.h"
#include "harness/core/text_table.h"
#include "harness/device/device.h"
#include "harness/tune/device_file.h"
#include "variants/table.h"

namespace warptune {
namespace fs = std::filesystem;
namespace {

constexpr const char* kVariable = "WARPTUNE_WISDOM";

std::vector<fs::path> entries() {
  const char* text = std::getenv(kVariable);
  return search_path(text ? text : "");
}

}  // namespace

Provenance provenance_of(const DeviceFacts& facts) {
  return {facts.name, facts.arch, facts.driver, facts.toolkit, {}};
}

bool has_wisdom_path() { return !entries().empty(); }

std::vector<fs::path> wisdom_files(const std::string& given, const DeviceFacts& facts,
                                   const fs::path& usual) {
  if (!given.empty()) return {given};
  std::vector<fs::path> files;
  for (const fs::path& entry : entries()) files.push_back(wisdom_file_of(entry, facts.slug()));
  if (files.empty() && !usual.empty()) files.push_back(usual);
  return files;
}

WisdomInUse wisdom_in_use(const std::string& given, const DeviceFacts& facts, const fs::path& usual) {
  if (!given.empty()) InputFile(given, fmt::format("the wisdom file '{}'", given));  // must exist
  const std::vector<fs::path> files = wisdom_files(given, facts, usual);
  WisdomInUse in_use = read_wisdom(WinnerJudge(ops(), devices_beside(files)), files, provenance_of(facts));
  if (!in_use.refused.empty()) {
    const RefusedWinner& first = *in_use.refused.begin();
    const std::size_t others = in_use.refused.size() - 1;
    print_note("{} is not used: {}{}", first.winner, first.reason,
               others > 0 ? fmt::format("; and {} more", others) : "");
  }
  return in_use;
}

void print_refused(const std::set<RefusedWinner>& refused) {
  std::map<std::string, std::vector<std::string>> by_reason;
  for (const RefusedWinner& one : refused) by_reason[one.reason].push_back(one.winner);
  for (const auto& [reason, winners] : by_reason) {
    print("refused {}: {}\n", counted(winners.size(), "winner"), reason);
    for (const std::string& winner : winners) print("  {}\n", winner);
  }
}

std::vector<DeviceFacts> devices_beside(const std::vector<fs::path>& files) {
  std::vector<DeviceFacts> devices;
  for (const fs::path& file : files)
    if (const auto facts = read_device_file(file.parent_path() / "device.json")) devices.push_back(*facts);
  return devices;
}

WisdomInUse required_wisdom(const std::string& given, const DeviceFacts& facts, const std::string& option) {
  if (given.empty() && !has_wisdom_path())
    throw InputError("it needs {}, or {} with the files to search", option, kVariable);
  WisdomInUse in_use = wisdom_in_use(given, facts);
  if (!in_use.found())
    throw InputError("none of the files of {} exists for {}: '{}'", kVariable, facts.name,
                     std::getenv(kVariable));
  return in_use;
}

WisdomInUse required_wisdom(const std::string& given, const std::string& device, const std::string& option) {
  const bool opens = given.empty() && has_wisdom_path();
  return required_wisdom(given, opens ? facts_of_device(device) : DeviceFacts{}, option);
}

DeviceFacts facts_of_device(const std::string& device) {
  const auto open = open_device(device);
  return open->facts();
}

}  // namespace warptune
