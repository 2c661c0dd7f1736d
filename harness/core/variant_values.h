#pragma once
// What the expressions of a variant give for a configuration: launches, stages, workspace, tensor maps.
#include <array>
#include <cstdint>
#include <functional>
#include <optional>
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
/// The dims of a problem, `dtype_bytes`, `mantissa_bits`, and of the device `sms`, `arch`, `shared_per_block`
/// and, as 0 or 1, `has_bulk_copy`, `has_wgmma`, `has_clusters`, `has_pdl` and `has_fp8_conversion`.
NamedValues known_values(const Problem& problem, const DeviceFacts& facts);

/// The names that expressions may use for a variant: its parameters, the dims of its op, the facts of a
/// device, then its derived values.
std::vector<Variable> variables_of(const Variant& variant, std::span<const Dim> dims);

/// Puts numbers in place of labels in all expressions of an op, and sets Variant::fields and, where it is
/// empty, Op::bind. Throws InputError for an unknown name or label.
void declare(OpEntry& entry);

/// The launch of a stage's kernel. Without facts it is that of a device with one SM. Throws CompileError
/// where a part of it is not an integer or is out of bounds.
Launch launch_of(const Variant& variant, const Stage& stage, const Problem& problem, const Config& config,
                 const DeviceFacts& facts = {});
/// The stages that a configuration launches: all of them, or the kernels only.
std::vector<const Stage*> active_stages(const Variant& variant, const Problem& problem, const Config& config);
std::vector<const Stage*> active_kernels(const Variant& variant, const Problem& problem,
                                         const Config& config);
/// Variant::workspace or Variant::own_workspace in bytes. Throws CompileError.
std::int64_t bytes_of(const Expression& workspace, const Variant& variant, const Problem& problem,
                      const Config& config);

/// The tensor maps of a stage for a configuration. The integer members of the op's args struct are the only
/// names left in their expressions.
class TensorMaps {
 public:
  TensorMaps(const Variant& variant, const Stage& stage, const Problem& problem, const Config& config);
  bool empty() const { return maps_.empty(); }
  /// Those of a launch with these args.
  std::vector<TensorMapSpec> operator()(const void* args) const;

 private:
  std::vector<ArgsField> fields_;
  DType dtype_;
  std::vector<TensorMapExpressions> maps_;
};

/// Looks up the names of a variant's expressions. Derived values are evaluated when they are used.
class VariantValues {
 public:
  /// The first three must outlive it. `facts`: null where a value is the same on all devices, such as a
  /// kernel's name or a workspace; an expression that uses a fact then throws InputError.
  VariantValues(const Variant& variant, const Problem& problem, const Config& config,
                const DeviceFacts* facts = nullptr);

  /// Whether an expression uses no fact of a device, or the facts are given.
  bool knows(const Expression& expression) const;

  double operator()(const Expression& expression) const;
  /// Throws CompileError where the value is not an integer from `least` to `most`.
  std::int64_t integer(const Expression& expression, std::int64_t least = -kLargestInteger,
                       std::int64_t most = kLargestInteger) const;
  /// The same expression with numbers in place of all names but the kept ones.
  Expression partial(const Expression& expression,
                     const std::function<bool(const std::string& name)>& is_kept) const;

 private:
  std::optional<double> known(const std::string& name) const;
  const Expression& derived(const std::string& name) const;

  const Variant& variant_;
  const Problem& problem_;
  const Config& config_;
  const bool has_facts_;
  std::vector<std::pair<std::string, double>> values_;
};

/// `value`, that of an expression, if it is an integer in these bounds. Throws CompileError that begins with
/// the expression's origin.
std::int64_t checked_integer(const Expression& expression, double value, const Problem& problem,
                             const Config& config, std::int64_t least, std::int64_t most);
/// CompileError about the value of an expression; `right` is what it must be.
[[noreturn]] void fail_value(const Expression& expression, double value, const Problem& problem,
                             const Config& config, const std::string& right);

/// The expressions of a launch in one order.
template <class Geometry>
auto parts_of(Geometry& g) {
  return std::array{&g.grid.x,       &g.grid.y, &g.grid.z,  &g.block.x, &g.block.y,    &g.block.z,
                    &g.shared_bytes, &g.pdl,    &g.cluster, &g.per_sm,  &g.max_blocks, &g.cooperative};
}
/// The launch that has these values, which are integers.
Launch launch_of_parts(std::span<const double> values);
/// A member that expressions of tensor maps may name.
bool is_integer(const ArgsField& field);

/// The limit that the geometry of a launch exceeds: "has a grid of 65536 along y; 1 to 65535 are possible".
std::optional<std::string> exceeded_launch_limit(const Launch& launch);

}  // namespace warptune
