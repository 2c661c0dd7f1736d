#include "harness/core/facts.h"

#include <fmt/format.h>

#include <cctype>

#include "harness/core/brief.h"
#include "harness/core/error.h"

namespace warptune {

int DeviceFacts::arch_number() const { return arch.starts_with("sm_") ? std::stoi(arch.substr(3)) : 0; }

void DeviceFacts::set_ceilings(const DeviceFacts& m) {
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
    c = std::isalnum(static_cast<unsigned char>(c)) ? static_cast<char>(std::tolower(c)) : '-';
  return text;
}

DeviceFacts known_device(std::string_view arch) {
  DeviceFacts facts{
      .backend = Backend::cuda, .arch = std::string(arch), .registers_per_sm = 65536, .threads_per_sm = 2048};
  if (arch == "sm_80") {
    facts.name = "NVIDIA A100-SXM4-40GB";
    facts.sms = 108;
    facts.l2_bytes = 40LL << 20;
    facts.memory_bytes = 40LL << 30;
    facts.shared_per_block = 163 << 10;
    facts.shared_per_sm = 164 << 10;
  } else if (arch == "sm_90" || arch == "sm_90a") {
    facts.name = "NVIDIA H200";
    facts.sms = 132;
    facts.l2_bytes = 60LL << 20;
    facts.memory_bytes = 141LL << 30;
    facts.shared_per_block = 227 << 10;
    facts.shared_per_sm = 228 << 10;
  } else {
    throw InputError(
        fmt::format("unknown architecture '{}'; known are sm_80, sm_90 and sm_90a", brief(arch)));
  }
  return facts;
}

}  // namespace warptune
