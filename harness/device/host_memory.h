#pragma once
// How much memory this process can still take.
#include <cstddef>

namespace warptune {

/// Bytes: what the kernel calls available (free memory and caches that it can drop), within the limits of the
/// control group and of the address space of this process.
std::size_t available_host_bytes();

}  // namespace warptune
