#pragma once
// Parses and checks numbers in user input.
#include <cstdint>
#include <string>
#include <string_view>

#include "harness/core/op.h"

namespace warptune {

/// Shapes and kernels of built-in ops hold a dim in 32 bits; the product of two dims fits 64.
inline constexpr std::int64_t kLargestDim = 2147483647;

/// Throws InputError that begins with `what` ("dim 'tokens'") unless the text is an integer that fits
/// 64 bits.
std::int64_t whole_number(std::string_view text, std::string_view what);

/// Throws InputError where the value is out of range for this dim, which has no labels.
void check_dim(const Op& op, const Dim& dim, std::int64_t value);

}  // namespace warptune
