#pragma once
// The names that expressions of a variant use, and their values for a configuration.
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "harness/core/variant.h"

namespace warptune {

/// Variables of expressions besides a variant's parameters and derived values.
struct NamedValues {
  std::vector<std::string> names;
  std::vector<double> values;
};
/// The dims of a problem, `dtype_bytes`, and of the device `sms`, `arch`, `shared_per_block` and, as 0 or 1,
/// `has_bulk_copy`, `has_wgmma`, `has_clusters`, `has_pdl` and `has_fp8_conversion`.
NamedValues known_values(const Problem& problem, const DeviceFacts& facts);

/// The names that expressions may use for a variant: its parameters, the dims of its op, the facts of a
/// device, then its derived values.
std::vector<Variable> variables_of(const Variant& variant, std::span<const Dim> dims);

/// Puts numbers in place of labels in all expressions of an op, and functions in the place of expressions
/// that give launches. Throws InputError for an unknown name or label.
void declare(OpEntry& entry);

/// Looks up the names of a variant's expressions. Derived values are evaluated when they are used.
class VariantValues {
 public:
  /// The variant must outlive it.
  VariantValues(const Variant& variant, const Problem& problem, const Config& config,
                const DeviceFacts& facts = {});

  double operator()(const Expression& expression) const;
  /// Throws CompileError where the value is not an integer.
  std::int64_t integer(const Expression& expression) const;
  Launch launch(const LaunchExpressions& geometry) const;
  /// The integer members of an args struct are names too, which hide others. A member is read when it is
  /// looked up: where the struct depends on the problem, it may lack members. `op` and `args` must outlive
  /// it.
  void add_members(const Op& op, const void* args) {
    op_ = &op;
    args_ = args;
  }

 private:
  double value_of(const std::string& name) const;

  const Variant& variant_;
  const Op* op_ = nullptr;  // whose members are names
  const void* args_ = nullptr;
  std::vector<std::pair<std::string, double>> values_;
};

/// The expressions of a launch in one order.
template <class Geometry>
auto parts_of(Geometry& g) {
  return std::array{&g.grid.x,       &g.grid.y, &g.grid.z,  &g.block.x, &g.block.y,    &g.block.z,
                    &g.shared_bytes, &g.pdl,    &g.cluster, &g.per_sm,  &g.max_blocks, &g.cooperative};
}
/// The launch that has these values, which are integers.
Launch launch_of_parts(std::span<const double> values);
/// Whether a value is an integer that a double holds exactly.
bool is_exact_integer(double value);

}  // namespace warptune
