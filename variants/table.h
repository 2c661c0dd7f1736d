#pragma once
// Every op with its variants: the one explicit list.
#include "harness/core/op_table.h"

namespace warptune {

/// All ops in the order of a decode step. The commands hand it to the harness, which includes nothing from
/// here.
const OpTable& ops();
inline const OpEntry& find_op(std::string_view name) { return ops().find(name); }

}  // namespace warptune
