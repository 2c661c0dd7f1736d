#pragma once
// Uneven sequence lengths of a problem. The set of lengths depends on batch and max only, so that shapes do
// not depend on the seed; their order depends on the seed.
#include <fmt/format.h>

#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "harness/core/error.h"
#include "harness/core/problem.h"
#include "harness/core/random.h"

namespace warptune {

/// `batch` lengths in [1, max]: one is max, one is 1 (from two sequences on), the others are random.
inline std::vector<std::int32_t> uneven_lengths(std::int64_t batch, std::int64_t max, std::uint64_t seed) {
  std::vector<std::int32_t> lengths(batch);
  for (std::int64_t i = 0; i < batch; ++i) lengths[i] = 1 + random_bits(1, i) % max;
  lengths[0] = max;
  if (batch > 1) lengths[1] = 1;
  for (std::int64_t i = batch - 1; i > 0; --i) std::swap(lengths[i], lengths[random_bits(seed, i) % (i + 1)]);
  return lengths;
}

/// The sum of the lengths of a problem with the dims batch and max_q_len.
inline std::int64_t packed_tokens(const Problem& p) {
  const auto lengths = uneven_lengths(p["batch"], p["max_q_len"], 0);
  return std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
}

/// Throws InputError where packed tokens, or, with `padded`, rows of padded sequences, exceed 32 bits, which
/// the tensors of offsets have.
inline void check_row_count(const Problem& p, bool padded) {
  constexpr std::int64_t kLargest = 2147483647;
  const std::int64_t rows = p["batch"] * p["max_q_len"];
  if (padded && rows > kLargest)
    throw InputError(
        fmt::format("{}: batch * max_q_len is {}; offsets of rows have 32 bits, so it must be at "
                    "most {}",
                    p.op, rows, kLargest));
  if (rows <= kLargest) return;
  if (const std::int64_t tokens = packed_tokens(p); tokens > kLargest)
    throw InputError(
        fmt::format("{}: the sequences have {} tokens together; their starts have 32 bits, so it "
                    "must be at most {}",
                    p.op, tokens, kLargest));
}

/// Prefix sums: the start of each packed sequence, then the end of the last.
inline std::vector<std::int32_t> starts_of(const std::vector<std::int32_t>& lengths) {
  std::vector<std::int32_t> starts{0};
  for (const std::int32_t length : lengths) starts.push_back(starts.back() + length);
  return starts;
}

}  // namespace warptune
