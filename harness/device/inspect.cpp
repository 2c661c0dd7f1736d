// What a configuration needs of a device, and the identity of its code.
#include <fmt/format.h>

#include <bit>
#include <span>

#include "harness/core/error.h"
#include "harness/core/hash.h"
#include "harness/device/compile.h"
#include "harness/device/cubin_file.h"
#include "harness/device/launch_check.h"
#include "harness/device/nvrtc.h"
#if WARPTUNE_HAS_CUDA
#include <cuda_occupancy.h>
#endif

namespace warptune {

#if WARPTUNE_HAS_CUDA
namespace {

/// The blocks of a launch that an SM runs at once; 0 where it runs none.
int resident_blocks(const DeviceFacts& facts, const Cubin& cubin, const Launch& launch) {
  cudaOccDeviceProp device;
  device.computeMajor = facts.arch_number() / 10;
  device.computeMinor = facts.arch_number() % 10;
  device.maxThreadsPerBlock = 1024;
  device.maxThreadsPerMultiprocessor = static_cast<int>(facts.threads_per_sm);
  device.regsPerBlock = 65536;
  device.regsPerMultiprocessor = static_cast<int>(facts.registers_per_sm);
  device.warpSize = 32;
  device.sharedMemPerBlock = 48 << 10;
  device.sharedMemPerMultiprocessor = static_cast<std::size_t>(facts.shared_per_sm);
  device.numSms = facts.sms;
  device.sharedMemPerBlockOptin = static_cast<std::size_t>(facts.shared_per_block);
  device.reservedSharedMemPerBlock = 1024;
  cudaOccFuncAttributes function;
  function.maxThreadsPerBlock = 1024;
  function.numRegs = cubin.registers;
  function.sharedSizeBytes = static_cast<std::size_t>(cubin.static_shared_bytes);
  function.maxDynamicSharedSizeBytes = static_cast<std::size_t>(launch.shared_bytes);
  function.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
  const cudaOccDeviceState state;
  cudaOccResult result;
  const unsigned threads = launch.block.x * launch.block.y * launch.block.z;
  if (cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &function, &state, static_cast<int>(threads),
                                              static_cast<std::size_t>(launch.shared_bytes)) !=
      CUDA_OCC_SUCCESS)
    return 0;
  return result.activeBlocksPerMultiprocessor;
}

double occupancy_pct(const DeviceFacts& facts, int resident_blocks, const Launch& launch) {
  const unsigned threads = launch.block.x * launch.block.y * launch.block.z;
  return 100.0 * resident_blocks * threads / static_cast<double>(facts.threads_per_sm);
}

/// The identity of one kernel of a configuration: its machine code and the geometry of its launch.
std::string code_of(const Cubin& cubin, const Launch& launch, const std::string& arguments) {
  const auto [grid, block] = std::pair(launch.grid, launch.block);
  return fmt::format("{} {}x{}x{} {}x{}x{} {} {} {} {}{}{}\n", machine_code_hash(cubin.code), grid.x, grid.y,
                     grid.z, block.x, block.y, block.z, launch.shared_bytes, launch.pdl, launch.cluster,
                     launch.per_sm, launch.cooperative ? " cooperative" : "", arguments);
}

std::string text_of(std::span<const KernelArgument> arguments) {
  std::string text;
  for (const KernelArgument& a : arguments) {
    text += fmt::format(" {}:{}:{}:{}", static_cast<int>(a.kind), a.offset, a.bytes,
                        std::bit_cast<std::uint64_t>(a.value));
    if (!a.members.empty()) text += fmt::format(" {{{}}}", text_of(a.members));
  }
  return text;
}

/// What a kernel from a file gets, as part of its identity; empty for the others, which get the op's struct.
std::string arguments_of(const Stage& stage, const Problem& problem, const Config& config) {
  std::string text;
  if (!stage.custom) return text;
  text = text_of(stage.custom->arguments(problem, config));
  if (stage.custom->constants)
    for (const ConstantMemory& c : stage.custom->constants(problem, config))
      text += fmt::format(" {}={}:{}:{:x}", c.symbol, c.tensor_offset, c.tensor_bytes,
                          stable_hash({reinterpret_cast<const char*>(c.value.data()), c.value.size()}));
  return text;
}

std::string hash_of_code(const std::string& stages, const std::string& arch) {
  return fmt::format("{:016x}", stable_hash(fmt::format("{} {}\n{}", arch, nvrtc_version(), stages)));
}

}  // namespace

std::string code_hash(const Compiler& compiler, const Variant& variant, const Problem& problem,
                      const Config& config, const std::string& arch) {
  if (!has_machine_code(variant)) return {};
  std::string code;
  for (const Stage* stage : active_kernels(variant, problem, config)) {
    code += code_of(compiler.compile(variant, *stage, problem, config, arch),
                    launch_of(variant, *stage, problem, config), arguments_of(*stage, problem, config));
  }
  return hash_of_code(code, arch);
}

Resources inspect(const Compiler& compiler, const Variant& variant, const Problem& problem,
                  const Config& config, const DeviceFacts& facts) {
  Resources total{.occupancy_pct = 100};
  std::string code;
  for (const Stage* stage : active_kernels(variant, problem, config)) {
    const Launch launch = launch_of(variant, *stage, problem, config, facts);
    const std::string name = expand_kernel_name(variant, *stage, problem, config);
    check_geometry(name, launch, facts);
    const Cubin cubin = compiler.compile(variant, *stage, problem, config, facts.arch);
    check_launch(name, cubin, launch, facts);
    const int resident = resident_blocks(facts, cubin, launch);
    check_residency(name, launch, resident, facts);
    total.registers = std::max(total.registers, cubin.registers);
    total.shared_bytes = std::max(total.shared_bytes, cubin.static_shared_bytes + launch.shared_bytes);
    total.spill_bytes = std::max(total.spill_bytes, cubin.spill_bytes);
    total.occupancy_pct = std::min(total.occupancy_pct, occupancy_pct(facts, resident, launch));
    total.compile_ms += cubin.compile_ms;
    code +=
        code_of(cubin, launch_of(variant, *stage, problem, config), arguments_of(*stage, problem, config));
  }
  if (variant.stages.empty()) total.occupancy_pct = 0;
  if (has_machine_code(variant)) total.code_hash = hash_of_code(code, facts.arch);
  return total;
}
#else
std::string code_hash(const Compiler&, const Variant&, const Problem&, const Config&, const std::string&) {
  return {};
}
Resources inspect(const Compiler&, const Variant&, const Problem&, const Config&, const DeviceFacts&) {
  throw CompileError("this program was built without the CUDA Toolkit, which compiles kernels");
}
#endif

}  // namespace warptune
