#pragma once
// The reference of an op as a kernel on the GPU.
#include "harness/core/kernel_reference.h"
#include "harness/device/device.h"

namespace warptune {

/// Compiles the kernel, runs it once and waits for it. `out` gets all outputs. Throws InputError
/// where it does not compile.
void run_reference_kernel(Device& device, const KernelReference& reference, const Problem& problem,
                          std::span<const TensorSpec> specs, std::uint64_t seed, Expected& out);

}  // namespace warptune
