#pragma once
// The facts and measured ceilings of a device, in OUT/<device>/device.json.
#include <filesystem>
#include <optional>

#include "harness/measure/calibrate.h"

namespace warptune {

/// The stored facts, where they are those of this device, driver and toolkit; nothing where they are not, or
/// where the file is missing or broken.
std::optional<DeviceFacts> load_device_file(const std::filesystem::path& path, const DeviceFacts& device);
/// Keeps what `calibrate` stored besides for the same device.
void save_device_file(const std::filesystem::path& path, const DeviceFacts& facts);
/// The facts, as above, and under "calibration" what else was measured.
void save_calibration(const std::filesystem::path& path, const Calibration& calibration);

}  // namespace warptune
