#include "harness/device/nvml.h"

#include <fmt/format.h>

#if WARPTUNE_HAS_CUDA
#include <cuda_runtime_api.h>
#endif

namespace warptune {
namespace {

/// The NVML entry points used, with the C types of nvml.h.
using ByBus = int(const char*, void**);
using ClockInfo = int(void*, int, unsigned*);
using Temperature = int(void*, int, unsigned*);
using Power = int(void*, unsigned*);
using Energy = int(void*, unsigned long long*);
using Reasons = int(void*, unsigned long long*);
using DriverVersion = int(char*, unsigned);

constexpr int kSm = 1, kMemory = 2;  // nvmlClockType_t

std::string reason_names(unsigned long long bits) {
  // Idle (1) and application clock settings (2) do not count as throttling.
  constexpr std::pair<unsigned long long, const char*> kReasons[] = {{0x4, "sw_power_cap"},
                                                                     {0x8, "hw_slowdown"},
                                                                     {0x20, "sw_thermal_slowdown"},
                                                                     {0x40, "hw_thermal_slowdown"},
                                                                     {0x80, "hw_power_brake_slowdown"}};
  std::string text;
  for (const auto& [bit, name] : kReasons) {
    if (!(bits & bit)) continue;
    if (!text.empty()) text += '+';
    text += name;
  }
  return text.empty() ? "none" : text;
}

}  // namespace

NvmlLibrary::NvmlLibrary() : library_(dlopen("libnvidia-ml.so.1", RTLD_NOW)) {
  if (!library_) return;
  const auto init = reinterpret_cast<int (*)()>(dlsym(library_, "nvmlInit_v2"));
  ready_ = init && init() == 0;
}

NvmlLibrary::~NvmlLibrary() {
  if (const auto shutdown = symbol<int()>("nvmlShutdown")) shutdown();
  if (library_) dlclose(library_);
}

std::string NvmlLibrary::text_of(int code) const {
  if (const auto text = symbol<const char*(int)>("nvmlErrorString")) return text(code);
  return fmt::format("NVML error {}", code);
}

Nvml::Nvml([[maybe_unused]] int cuda_ordinal) {
#if WARPTUNE_HAS_CUDA
  const auto by_bus = library_.symbol<ByBus>("nvmlDeviceGetHandleByPciBusId_v2");
  char bus[32] = {};
  if (!by_bus || cudaDeviceGetPCIBusId(bus, sizeof(bus), cuda_ordinal) != cudaSuccess ||
      by_bus(bus, &device_) != 0)
    device_ = nullptr;
#endif
}

Clocks Nvml::read_quick() const {
  Clocks clocks;
  if (!device_) return clocks;
  unsigned value = 0;
  if (const auto f = library_.symbol<ClockInfo>("nvmlDeviceGetClockInfo")) {
    if (f(device_, kSm, &value) == 0) clocks.sm_mhz = value;
    if (f(device_, kMemory, &value) == 0) clocks.mem_mhz = value;
  }
  unsigned long long bits = 0;
  if (const auto f = library_.symbol<Reasons>("nvmlDeviceGetCurrentClocksThrottleReasons");
      f && f(device_, &bits) == 0)
    clocks.throttled = reason_names(bits);
  return clocks;
}

Clocks Nvml::read() const {
  Clocks clocks = read_quick();
  if (!device_) return clocks;
  unsigned value = 0;
  if (const auto f = library_.symbol<Temperature>("nvmlDeviceGetTemperature");
      f && f(device_, 0, &value) == 0)
    clocks.temperature_c = value;
  if (const auto f = library_.symbol<Power>("nvmlDeviceGetPowerUsage"); f && f(device_, &value) == 0)
    clocks.power_w = value / 1000.0;
  return clocks;
}

double Nvml::energy_j() const {
  unsigned long long millijoules = 0;
  const auto f = library_.symbol<Energy>("nvmlDeviceGetTotalEnergyConsumption");
  return device_ && f && f(device_, &millijoules) == 0 ? static_cast<double>(millijoules) * 1e-3
                                                       : __builtin_nan("");
}

std::string Nvml::driver_version() const {
  char text[96] = {};
  if (const auto f = library_.symbol<DriverVersion>("nvmlSystemGetDriverVersion")) f(text, sizeof(text));
  return text;
}

}  // namespace warptune
