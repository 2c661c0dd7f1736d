#pragma once
#include <memory>
#include <string_view>

#include "harness/device/memory_pool.h"

namespace warptune {

enum class PoolKind {
  caching,     // CachingPool over cudaMalloc
  cuda_async,  // cudaMallocAsync from a memory pool that keeps freed memory
  cuda_plain   // cudaMalloc and cudaFree for every request: compute-sanitizer needs this
};

/// "caching", "cuda_async", "cuda_plain". Throws InputError.
PoolKind parse_pool_kind(std::string_view name);
/// The kind in the environment variable WARPTUNE_POOL, else caching.
PoolKind default_pool_kind();

/// A memory pool on CUDA device `ordinal`.
std::unique_ptr<MemoryPool> make_cuda_pool(PoolKind kind, int ordinal);

}  // namespace warptune
