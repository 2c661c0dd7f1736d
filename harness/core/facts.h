#pragma once
// The properties of a device that constraints, roofline floors and the CSV need.
#include <cstdint>
#include <string>

namespace warptune {

enum class Backend { cuda, host };

/// Sizes in bytes. The rates are measured (GB/s, TFLOP/s), 0 where not measured yet.
struct DeviceFacts {
  Backend backend = Backend::host;
  std::string name;     // "NVIDIA H200", "host"
  std::string id;       // unique: "GPU-1f2e..."; "host"
  std::string arch;     // "sm_90a", "x86_64"; "sm_90a-as-sm_80": facts_as()
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
  double l2_read_gb_per_s = 0;    // reads that hit the L2; not measured on the host
  double matrix_tflop_per_s = 0;  // 16-bit inputs
  double vector_tflop_per_s = 0;  // fp32
  double launch_floor_us = 0;     // an empty kernel as a graph node

  /// Copies the measured rates only.
  void set_peaks(const DeviceFacts& measured);
  /// 80 of sm_80 and of sm_90a-as-sm_80, 90 of sm_90a, 0 on the host.
  int arch_number() const;
  // Features that kernel families require; constraints read the same names as 0 or 1.
  bool has_bulk_copy() const;       // cp.async.bulk, tensor maps, mbarrier transaction counts: 9.0 and later
  bool has_wgmma() const;           // warpgroup matrix instructions: code for sm_90a, no other architecture
  bool has_clusters() const;        // thread block clusters, distributed shared memory: 9.0 and later
  bool has_pdl() const;             // programmatic dependent launch: 9.0 and later
  bool has_fp8_conversion() const;  // e4m3 to fp16 in hardware: 8.9 and later
  /// The ridge point of the roofline: 16-bit matrix flops in the time of reading one byte. A typical value
  /// where the peaks are not measured.
  double flops_per_byte() const;
  /// One sentence if nothing was measured on this architecture; else empty.
  std::string family_note() const;
  /// The folder name of this device under results/: lower case, dashes.
  std::string slug() const;
  /// Whether facts_as() made them.
  bool is_rehearsal() const;
};

/// The architectures of known_device(): "sm_80, sm_86, ...".
std::string known_archs();

/// Facts of an architecture without a device, those of one GPU that has it, as the H200 of sm_90a, and of one
/// as an older one (sm_90a-as-sm_80). Throws InputError.
DeviceFacts known_device(std::string_view arch);

/// The facts of a GPU that rehearses an older architecture: features and limits of shared memory are those of
/// `arch`; SMs, memory and peaks stay. Name ("h100-as-sm_80") and arch ("sm_90a-as-sm_80") are its own, so
/// that rows and winners of one are never used for the other. Throws InputError where the device is no GPU or
/// `arch` is unknown or not older.
DeviceFacts facts_as(DeviceFacts device, std::string_view arch);

}  // namespace warptune
