#pragma once
// Whether a device can launch a kernel: what the driver refuses at a launch is found without one.
#include <string>

#include "harness/core/facts.h"
#include "harness/core/variant.h"
#include "harness/device/compile.h"

namespace warptune {

/// The grid as it is launched: `per_sm` is resolved, and persistent clusters are rounded down to whole ones.
Dim3 launched_grid(const Launch& launch, const DeviceFacts& facts);

/// Throws ResourceError where no kernel can be launched with this geometry. `kernel` names it in the message.
void check_geometry(const std::string& kernel, const Launch& launch, const DeviceFacts& facts);

/// Throws ResourceError where this kernel cannot: its registers, its shared memory, and what it was compiled
/// for (__launch_bounds__, __cluster_dims__, __block_size__).
void check_launch(const std::string& kernel, const Cubin& cubin, const Launch& launch,
                  const DeviceFacts& facts);

/// Throws ResourceError where the blocks of a cooperative launch are not all resident at once.
void check_residency(const std::string& kernel, const Launch& launch, int blocks_per_sm,
                     const DeviceFacts& facts);

}  // namespace warptune
