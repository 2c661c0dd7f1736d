#pragma once
// The facts and measured peaks of a device, in OUT/<device>/device.json.
#include <filesystem>
#include <optional>

#include "harness/measure/calibrate.h"

namespace warptune {

/// The stored facts, of any device; empty if the file is missing or broken.
std::optional<DeviceFacts> read_device_file(const std::filesystem::path& path);
/// The stored facts, if they are of this kind of device, driver and toolkit and the peaks are measured.
std::optional<DeviceFacts> load_device_file(const std::filesystem::path& path, const DeviceFacts& device);
/// The same, if they are of this very card: the peaks of two cards of one kind differ by up to 4 %.
std::optional<DeviceFacts> load_card_file(const std::filesystem::path& path, const DeviceFacts& card);
/// Throws InputError where the file exists and is something else. The two below do so before they write.
void expect_device_file(const std::filesystem::path& path);
/// Keeps what `calibrate` also stored for the same device.
void save_device_file(const std::filesystem::path& path, const DeviceFacts& facts);
/// The facts, and under "calibration" the other measurements.
void save_calibration(const std::filesystem::path& path, const Calibration& calibration);

}  // namespace warptune
