#pragma once
// What is known of a device: what constraints, floors and the CSV need.
#include <cstdint>
#include <string>

namespace warptune {

enum class Backend { cuda, host };

/// Sizes in bytes. The rates are measured (GB/s, TFLOP/s), 0 where not measured yet.
struct DeviceFacts {
  Backend backend = Backend::host;
  std::string name;     // "NVIDIA H200", "host"
  std::string id;       // of this very device: "GPU-1f2e..."; "host"
  std::string arch;     // "sm_90a", "x86_64"
  std::string driver;   // "580.159.04", empty on the host
  std::string toolkit;  // "13.0"
  int sms = 1;          // multiprocessors, or hardware threads of the host
  std::int64_t l2_bytes = 0;
  std::int64_t memory_bytes = 0;
  std::int64_t shared_per_block = 0;  // opt-in limit
  std::int64_t shared_per_sm = 0;
  std::int64_t registers_per_sm = 0;
  std::int64_t threads_per_sm = 0;
  double read_gb_per_s = 0;
  double copy_gb_per_s = 0;
  double l2_read_gb_per_s = 0;    // what stays in the L2; not measured on the host
  double matrix_tflop_per_s = 0;  // 16-bit inputs
  double vector_tflop_per_s = 0;  // fp32
  double launch_floor_us = 0;     // an empty kernel as a graph node

  /// Takes over the measured rates only.
  void set_ceilings(const DeviceFacts& measured);
  /// 80 of sm_80, 90 of sm_90a, 0 on the host.
  int arch_number() const;
  /// The folder name of this device under results/: lower case, dashes.
  std::string slug() const;
};

/// Facts of an architecture that is not here: sm_80 (A100 40 GB), sm_90a (H200). Throws InputError.
DeviceFacts known_device(std::string_view arch);

}  // namespace warptune
