#pragma once
// Every op with its variants: the one explicit list.
#include <span>
#include <string_view>

#include "harness/core/variant.h"

namespace warptune {

/// All ops in the order of a decode step.
std::span<const OpEntry> all_ops();
/// Throws InputError that lists the ops.
const OpEntry& find_op(std::string_view name);

}  // namespace warptune
