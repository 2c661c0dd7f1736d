#pragma once
#include <memory>

#include "device/memory_pool.h"

namespace warptune {

enum class PoolKind { caching, cuda_async, cuda_plain };

/// A pool of the memory of CUDA device `ordinal`.
std::unique_ptr<MemoryPool> make_cuda_pool(PoolKind kind, int ordinal);

}  // namespace warptune
