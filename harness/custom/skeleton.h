#pragma once
// The first files of a kernel of the user: the naive kernel of its op, to be changed, and the sweep that
// tunes it; and those of an op of the user.
#include <string>
#include <utility>
#include <vector>

#include "harness/core/variant.h"
#include "harness/device/compile.h"

namespace warptune {

/// Name and text of a .cu and a .yaml. The kernel is correct as it is. Throws InputError where the op has no
/// naive kernel.
std::vector<std::pair<std::string, std::string>> kernel_skeleton(const OpEntry& entry,
                                                                 const std::string& name,
                                                                 const KernelSources& sources);

/// The same for an op of the user: a kernel, a reference in C++ and a .yaml. All are correct as they are.
/// Throws InputError where an expression could not use the name.
std::vector<std::pair<std::string, std::string>> op_skeleton(const std::string& name);

}  // namespace warptune
