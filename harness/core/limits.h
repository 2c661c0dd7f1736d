#pragma once
// Numbers that users give, and what they may be.
#include <cstdint>
#include <string>
#include <string_view>

#include "harness/core/op.h"

namespace warptune {

/// Shapes and kernels count a dim in 32 bits; two dims multiplied fit 64.
inline constexpr std::int64_t kLargestDim = 2147483647;

/// Throws InputError that begins with `what` ("dim 'tokens'") where the text is no whole number, or one that
/// 64 bits do not hold.
std::int64_t whole_number(std::string_view text, std::string_view what);

/// Throws InputError where a dim without labels cannot be so small or so large.
void check_dim(const Op& op, const Dim& dim, std::int64_t value);

}  // namespace warptune
