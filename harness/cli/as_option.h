#pragma once
// The option --as: the GPU rehearses an older architecture (docs/a100.md).
#include <CLI/CLI.hpp>
#include <string>

#include "harness/device/device.h"

namespace warptune {

inline constexpr const char* kAsHelp =
    "An older architecture that the GPU rehearses: sm_80 has its features and limits, and a folder of its "
    "own";

/// For a command with --device, which is added before: `device` gets a name for open_device() that has both.
/// It must outlive the command.
inline void add_as_option(CLI::App& command, std::string& device) {
  command.add_option_function<std::string>(
      "--as", [&device](const std::string& arch) { device = device_as(device, arch); }, kAsHelp);
}

}  // namespace warptune
