#pragma once
// The wisdom of a command: --wisdom, else the search path WARPTUNE_WISDOM, else the file that the command
// usually takes.
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "harness/core/facts.h"
#include "harness/results/wisdom_merge.h"
#include "harness/results/wisdom_path.h"

namespace warptune {

/// The facts of a device that winners are judged by.
Provenance provenance_of(const DeviceFacts& facts);

/// Whether WARPTUNE_WISDOM names files.
bool has_wisdom_path();
/// The files of --wisdom, else of WARPTUNE_WISDOM, else `usual` unless it is empty; they need not exist.
std::vector<std::filesystem::path> wisdom_files(const std::string& given, const DeviceFacts& facts,
                                                const std::filesystem::path& usual = {});
/// Their wisdom. `given` must exist. Throws InputError.
WisdomInUse wisdom_in_use(const std::string& given, const DeviceFacts& facts,
                          const std::filesystem::path& usual = {});
/// The same for a command that cannot run without. Throws InputError where no file exists; `option` is how
/// the command names a file ("--wisdom FILE").
WisdomInUse required_wisdom(const std::string& given, const DeviceFacts& facts, const std::string& option);
/// The same, on "auto", "cuda:N" or "host". Opens the device only for a search path.
WisdomInUse required_wisdom(const std::string& given, const std::string& device, const std::string& option);
/// Prints winners that a merge left out, grouped by the reason.
void print_refused(const std::set<RefusedWinner>& refused);
/// The facts of devices in the device.json beside each file, for WinnerJudge.
std::vector<DeviceFacts> devices_beside(const std::vector<std::filesystem::path>& files);
/// The facts of "auto", "cuda:N" or "host".
DeviceFacts facts_of_device(const std::string& device);

}  // namespace warptune
