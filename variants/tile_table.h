#pragma once
// Configurations to begin with on devices without wisdom, for every op: tiles that others chose for its
// kernels, or that won often on another device.
#include <vector>

#include "harness/core/op_table.h"

namespace warptune {

/// The tiles of the op table.
std::vector<Tile> tile_rows();
/// Problems that show the tiles, row by row: what `inspect --defaults` compiles.
std::vector<Problem> tile_examples(const OpTable& ops);

}  // namespace warptune
