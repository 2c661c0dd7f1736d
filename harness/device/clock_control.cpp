#include "harness/device/clock_control.h"

#include <stdexcept>

#include "harness/core/brief.h"
#include "harness/core/error.h"
#include "harness/core/text.h"
#include "harness/device/nvml.h"

namespace warptune {
namespace {

constexpr unsigned kMostMhz = 20'000;

/// The NVML entry points used, with the C types of nvml.h.
using ByUuid = int(const char*, void**);
using DefaultClock = int(void*, int, unsigned*);
using LockClocks = int(void*, unsigned, unsigned);
using ResetClocks = int(void*);

class NvmlClockControl : public ClockControl {
 public:
  explicit NvmlClockControl(const std::string& id) {
    if (!library_.ready()) throw std::runtime_error("there is no NVML (libnvidia-ml.so.1)");
    const auto by_uuid = library_.symbol<ByUuid>("nvmlDeviceGetHandleByUUID");
    const int code = by_uuid ? by_uuid(id.c_str(), &device_) : kNoFunction;
    if (code != 0) throw TextError("NVML does not find the GPU: {}", reason(code));
  }

  std::optional<unsigned> base_mhz(ClockDomain domain) const override {
    constexpr int kSm = 1, kMemory = 2;  // nvmlClockType_t
    const auto read = library_.symbol<DefaultClock>("nvmlDeviceGetDefaultApplicationsClock");
    unsigned mhz = 0;
    if (!read || read(device_, domain == ClockDomain::sm ? kSm : kMemory, &mhz) != 0 || mhz == 0) return {};
    return mhz;
  }
  std::string lock(ClockDomain domain, unsigned mhz) override {
    const auto lock = library_.symbol<LockClocks>(
        domain == ClockDomain::sm ? "nvmlDeviceSetGpuLockedClocks" : "nvmlDeviceSetMemoryLockedClocks");
    return reason(lock ? lock(device_, mhz, mhz) : kNoFunction);
  }
  std::string reset(ClockDomain domain) override {
    const auto reset = library_.symbol<ResetClocks>(
        domain == ClockDomain::sm ? "nvmlDeviceResetGpuLockedClocks" : "nvmlDeviceResetMemoryLockedClocks");
    return reason(reset ? reset(device_) : kNoFunction);
  }

 private:
  static constexpr int kNoFunction = 13;  // NVML_ERROR_FUNCTION_NOT_FOUND
  std::string reason(int code) const { return code == 0 ? "" : library_.text_of(code); }

  NvmlLibrary library_;
  void* device_ = nullptr;
};

}  // namespace

ClockRequest parse_clock_request(std::string_view text) {
  const auto fail = [&] {
    throw InputError("--lock-clocks takes base, or SM or SM,MEMORY in MHz such as 1410,1215, not '{}'",
                     brief(std::string(text)));
  };
  const auto mhz = [&](std::string_view word) {
    const auto value = parse_number<unsigned>(word);
    if (!value || *value == 0 || *value > kMostMhz) fail();
    return *value;
  };
  if (text == "base") return {};
  const auto comma = text.find(',');
  ClockRequest request{.sm_mhz = mhz(text.substr(0, comma)), .mem_mhz = {}};
  if (comma != std::string_view::npos) request.mem_mhz = mhz(text.substr(comma + 1));
  return request;
}

std::unique_ptr<ClockControl> nvml_clock_control(const std::string& id) {
  return std::make_unique<NvmlClockControl>(id);
}

}  // namespace warptune
