#pragma once
// The shortest times that a device can reach. A row of a sweep below them is too_fast; a winner below them is
// refused.
#include <span>
#include <vector>

#include "harness/core/facts.h"
#include "harness/core/op.h"
#include "harness/measure/cache_mode.h"

namespace warptune {

/// What is timed: a row in the sweep's cache mode, or one of a finalist's other times.
enum class Timing { main, hot, isolated };

std::int64_t bytes_of(std::span<const TensorSpec> specs, CacheState state);
/// Sets where a launch finds each tensor: as its spec says, but activations too large for the cache are cold
/// as well, and all is hot in CacheMode::hot.
void decide_cache_states(std::vector<TensorSpec>& specs, CacheMode cache, std::int64_t l2_bytes);
/// Compulsory bytes that cannot come from a cache.
double cold_bytes(const Cost& cost, std::span<const TensorSpec> specs);

/// Times in microseconds below this are impossible, even with a margin: memory, the L2, arithmetic and the
/// launch are slower. `specs` have the cache states of the sweep. 0 where no peak is measured.
double impossible_us(const DeviceFacts& facts, const Cost& cost, const Problem& problem,
                     std::span<const TensorSpec> specs, Timing timing);

/// The same for a time of another card or session. Peaks that `facts` lacks, and all peaks of a host, whose
/// caches hold more than they report, are higher than any device reaches. 0 where `time_us` is possible even
/// if all data comes from memory: tensors, which may hold large tables, are made only for shorter times.
double impossible_elsewhere_us(const DeviceFacts& facts, const Op& op, const Problem& problem,
                               CacheMode cache, double time_us);

}  // namespace warptune
