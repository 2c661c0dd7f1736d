#pragma once
// What ops of several ranks have in common.
#include <fmt/format.h>

#include <string_view>

#include "harness/core/error.h"
#include "kernels/common/peers.h"
#include "variants/helpers/specs.h"

namespace warptune {

inline Dim ranks_dim() {
  return {.name = "ranks", .doc = "GPUs of one host that run it together", .min = 2, .max = kMaxRanks};
}

/// A tensor whose first dim is the rank.
inline TensorSpec of_all_ranks(TensorSpec spec) {
  spec.per_rank = true;
  return spec;
}

/// Throws InputError where a dim's bytes are not whole packets of an exchange.
inline void expect_packets(const Problem& p, std::string_view dim, std::int64_t bytes) {
  constexpr int kPacketBytes = 16;
  if (bytes % kPacketBytes)
    throw InputError(fmt::format("{}: '{}' makes {} bytes; ranks exchange packets of {} bytes", p.op, dim,
                                 bytes, kPacketBytes));
}

/// Element i of the sum over the ranks, each of which has `elements` elements.
inline double sum_over_ranks(const Problem& p, const Values& x, std::int64_t elements, std::int64_t i) {
  double sum = 0;
  for (std::int64_t rank = 0; rank < p["ranks"]; ++rank) sum += x[rank * elements + i];
  return sum;
}

}  // namespace warptune
