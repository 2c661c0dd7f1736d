#pragma once
// The facts and measured ceilings of a device, in OUT/<device>/device.json.
#include <filesystem>
#include <optional>

#include "core/facts.h"

namespace warptune {

/// The stored facts, where they are those of this device, driver and toolkit; nothing where they are not, or
/// where the file is missing or broken.
std::optional<DeviceFacts> load_device_file(const std::filesystem::path& path, const DeviceFacts& device);
void save_device_file(const std::filesystem::path& path, const DeviceFacts& facts);

}  // namespace warptune
