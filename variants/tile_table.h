#pragma once
// Defaults for devices without wisdom: tiles of attention that are known to be good.
#include <span>
#include <string>
#include <vector>

#include "harness/core/variant.h"

namespace warptune {

/// A row of the table. Expressions know what constraints know (core/space.h).
struct Tile {
  std::string op, variant;
  std::string when;  // an expression: the problems and devices that it is for
  /// A word per parameter: `block=128` sets it, to a value or label of the parameter or to an expression;
  /// `splits<=4*sms/batch` to its largest value up to that (else its least) with which the configuration
  /// keeps the constraints. Expressions also know the parameters of earlier words.
  std::string config;
  std::string source;            // whose values these are
  std::string measured_on = {};  // where this program measured them; empty: nowhere
};

/// The first row that fits a problem is its default.
std::span<const Tile> tile_table();

/// A row that fits a problem on a device, and what it says there.
struct DefaultTile {
  const Tile* tile = nullptr;
  const Variant* variant = nullptr;
  Config config;

  /// "FlashAttention-2's tile on the A100; not measured"
  std::string origin() const;
};

/// The rows that fit, best first: whose condition holds and whose configuration keeps all constraints there.
/// `variant`: only of that one.
std::vector<DefaultTile> default_tiles(const Problem& problem, const DeviceFacts& facts,
                                       std::string_view variant = {});

/// Problems that show the table, row by row: what `inspect --defaults` compiles.
std::vector<Problem> tile_examples();

}  // namespace warptune
