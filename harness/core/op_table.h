#pragma once
// Every op with its variants and its default configurations. The commands pass this table to the harness.
#include <string>
#include <string_view>
#include <vector>

#include "harness/core/variant.h"

namespace warptune {

/// A known good configuration of a variant, for devices without wisdom. Its expressions use the same names as
/// constraints (known_values(), core/space.h).
struct Tile {
  std::string op, variant;
  Expression when;  // the problems and devices that it is for
  /// One word per parameter. `block=128` sets it to a value or label of the parameter, or to the value of an
  /// expression. `splits<=4*sms/batch` sets it to the largest of its values up to the bound (else the least)
  /// that satisfies the constraints. Expressions may also use the parameters of earlier words.
  std::string config;
  std::string source;            // where the values come from
  std::string measured_on = {};  // the devices on which this program measured them; empty: none
};

/// A tile that fits a problem on a device, with its configuration there.
struct DefaultTile {
  const Tile* tile = nullptr;
  const Variant* variant = nullptr;
  Config config;

  /// "FlashAttention-2's tile on the A100; not measured"
  std::string origin() const;
};

class OpTable {
 public:
  /// Throws InputError for an unknown name or label in an expression.
  explicit OpTable(std::vector<OpEntry> entries, std::vector<Tile> tiles = {});
  // Others hold the addresses of variants.
  OpTable(const OpTable&) = delete;
  OpTable& operator=(const OpTable&) = delete;

  /// Throws InputError that suggests a similar name or lists all.
  const OpEntry& find(std::string_view op) const;
  /// The same, or nullptr.
  const OpEntry* find_if_known(std::string_view op) const;
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }

  const std::vector<Tile>& tiles() const { return tiles_; }
  /// The tiles that fit, best first: the condition holds, and the configuration satisfies every constraint.
  /// `variant`: only its tiles.
  std::vector<DefaultTile> default_tiles(const Problem& problem, const DeviceFacts& facts,
                                         std::string_view variant = {}) const;

 private:
  std::vector<OpEntry> entries_;  // in the order of a decode step
  std::vector<Tile> tiles_;       // the first that fits a problem is its default
};

}  // namespace warptune
