#include "harness/core/facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <iterator>
#include <string_view>
#include <vector>

#include "harness/core/brief.h"
#include "harness/core/error.h"

namespace warptune {
namespace {

constexpr std::string_view kAs = "-as-";

}  // namespace

int DeviceFacts::arch_number() const {
  constexpr std::string_view kPrefix = "sm_";
  int number = 0;  // stays 0 without digits
  if (const auto last = arch.rfind(kPrefix); last != std::string::npos)
    std::from_chars(arch.data() + last + kPrefix.size(), arch.data() + arch.size(), number);
  return number;
}

bool DeviceFacts::has_bulk_copy() const { return arch_number() >= 90; }
bool DeviceFacts::has_wgmma() const { return arch == "sm_90a"; }
bool DeviceFacts::has_clusters() const { return arch_number() >= 90; }
bool DeviceFacts::has_pdl() const { return arch_number() >= 90; }
bool DeviceFacts::has_fp8_conversion() const { return arch_number() >= 89; }

double DeviceFacts::flops_per_byte() const {
  constexpr double kTypical = 200;  // data center GPUs from the A100 (312 TFLOP/s, 1.56 TB/s) on
  if (matrix_tflop_per_s <= 0 || read_gb_per_s <= 0) return kTypical;
  return 1000 * matrix_tflop_per_s / read_gb_per_s;
}

std::string DeviceFacts::family_note() const {
  const int number = arch_number();
  if (number == 0 || number == 80 || number == 90) return {};
  return fmt::format(
      "Kernels were compiled for {}, and measured on sm_90a only: defaults are those of sm_90a and sm_80.",
      arch);
}

void DeviceFacts::set_peaks(const DeviceFacts& m) {
  read_gb_per_s = m.read_gb_per_s;
  copy_gb_per_s = m.copy_gb_per_s;
  l2_read_gb_per_s = m.l2_read_gb_per_s;
  matrix_tflop_per_s = m.matrix_tflop_per_s;
  vector_tflop_per_s = m.vector_tflop_per_s;
  launch_floor_us = m.launch_floor_us;
}

std::string DeviceFacts::slug() const {
  std::string text = name.starts_with("NVIDIA ") ? name.substr(7) : name;
  for (char& c : text)
    if (c != '_') c = std::isalnum(static_cast<unsigned char>(c)) ? static_cast<char>(std::tolower(c)) : '-';
  return text;
}

bool DeviceFacts::is_rehearsal() const { return arch.find(kAs) != std::string::npos; }

namespace {

struct KnownDevice {
  int number;  // of the architecture
  const char* name;
  int sms;
  std::int64_t l2_mib, memory_gib, shared_per_block_kib, shared_per_sm_kib, threads_per_sm;
};

constexpr KnownDevice kKnownDevices[] = {
    {80, "NVIDIA A100-SXM4-40GB", 108, 40, 40, 163, 164, 2048},
    {86, "NVIDIA RTX A6000", 84, 6, 48, 99, 100, 1536},
    {87, "NVIDIA Jetson AGX Orin", 16, 4, 64, 163, 164, 1536},
    {89, "NVIDIA L40S", 142, 96, 48, 99, 100, 1536},
    {90, "NVIDIA H200", 132, 60, 141, 227, 228, 2048},
    {100, "NVIDIA B200", 148, 126, 180, 227, 228, 2048},
    {103, "NVIDIA B300", 148, 126, 268, 227, 228, 2048},
    {120, "NVIDIA GeForce RTX 5090", 170, 96, 32, 99, 100, 1536},
    {121, "NVIDIA GB10", 48, 24, 119, 99, 100, 1536},
};

/// From 9.0 on there is also code for one architecture only: sm_90a.
std::vector<std::string> archs_of(const KnownDevice& device) {
  const std::string arch = fmt::format("sm_{}", device.number);
  return device.number < 90 ? std::vector{arch} : std::vector{arch, arch + "a"};
}

}  // namespace

std::string known_archs() {
  std::vector<std::string> names;
  for (const KnownDevice& device : kKnownDevices)
    std::ranges::copy(archs_of(device), std::back_inserter(names));
  return listed(names);
}

DeviceFacts known_device(std::string_view arch) {
  if (const auto as = arch.find(kAs); as != arch.npos)
    return facts_as(known_device(arch.substr(0, as)), arch.substr(as + kAs.size()));
  for (const KnownDevice& device : kKnownDevices)
    for (const std::string& name : archs_of(device))
      if (name == arch)
        return {.backend = Backend::cuda,
                .name = device.name,
                .arch = name,
                .sms = device.sms,
                .l2_bytes = device.l2_mib << 20,
                .memory_bytes = device.memory_gib << 30,
                .shared_per_block = device.shared_per_block_kib << 10,
                .shared_per_sm = device.shared_per_sm_kib << 10,
                .registers_per_sm = 65536,
                .threads_per_sm = device.threads_per_sm};
  throw InputError("unknown architecture '{}'; known are {}", brief(arch), known_archs());
}

DeviceFacts facts_as(DeviceFacts device, std::string_view arch) {
  const DeviceFacts older = known_device(arch);
  if (device.backend != Backend::cuda || older.arch_number() >= device.arch_number())
    throw InputError("'{}' ({}) cannot run as {}: it takes a GPU of a newer architecture", brief(device.name),
                     brief(device.arch), arch);
  // The model is the first word with a digit: h100 of "NVIDIA H100 80GB HBM3".
  const std::string slug = device.slug();
  const auto digit = slug.find_first_of("0123456789"), begin = slug.rfind('-', digit) + 1;  // npos + 1 is 0
  device.name = fmt::format("{}-as-{}", slug.substr(begin, slug.find('-', digit) - begin), arch);
  device.arch = fmt::format("{}-as-sm_{}", device.arch, older.arch_number());
  device.shared_per_block = std::min(device.shared_per_block, older.shared_per_block);
  device.shared_per_sm = std::min(device.shared_per_sm, older.shared_per_sm);
  return device;
}

}  // namespace warptune
