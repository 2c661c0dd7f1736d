#pragma once
// Locks the clocks of a GPU, through NVML where the driver permits it.
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace warptune {

enum class ClockDomain { sm, memory };

/// The clocks to lock, in MHz. Without a value: the default application clock of the device.
struct ClockRequest {
  std::optional<unsigned> sm_mhz, mem_mhz;
};

/// "base", "1410" or "1410,1215": SM, then memory. Throws InputError for anything else.
ClockRequest parse_clock_request(std::string_view text);

/// The clocks of one GPU. What fails returns the reason, in the words of the driver.
class ClockControl {
 public:
  virtual ~ClockControl() = default;
  /// The default application clock; nothing where the device reports none.
  virtual std::optional<unsigned> base_mhz(ClockDomain domain) const = 0;
  /// Both return an empty text, or why they failed.
  virtual std::string lock(ClockDomain domain, unsigned mhz) = 0;
  virtual std::string reset(ClockDomain domain) = 0;
};

/// Finds the clocks of the GPU with a DeviceFacts::id. Throws std::runtime_error with the reason where there
/// are none: the host, a machine without NVML.
using OpenClockControl = std::function<std::unique_ptr<ClockControl>(const std::string& id)>;
std::unique_ptr<ClockControl> nvml_clock_control(const std::string& id);

}  // namespace warptune
