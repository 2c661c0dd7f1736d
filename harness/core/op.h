#pragma once
// What is computed: dims, tensors, cost, fp64 reference, tolerance. An op is a value; it does nothing itself.
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/core/args_field.h"
#include "harness/core/tensor.h"

namespace warptune {

/// What a different value of a dim changes.
enum class DimRole {
  shape,     // what is computed, or which kernels are fast
  work,      // the amount of work: the winner of a nearby value is a good first guess
  parallel,  // the amount of independent work (heads): times of other values predict this one
  data,      // only the data of a launch (uneven sequence lengths): the winner is the same
};

/// Shapes and kernels of built-in ops hold a dim in 32 bits; the product of two dims fits 64.
inline constexpr std::int64_t kLargestDim = 2147483647;

/// A named size or choice of an op.
struct Dim {
  std::string name, doc;
  std::optional<std::int64_t> fallback = {};  // none: the user must give it
  std::vector<std::string> labels = {};  // a choice: its values by name ("none", "linear"); value = index
  std::int64_t min = 1;
  bool optional = false;  // a feature: a problem's key omits it when it has the fallback's value
  DimRole role = DimRole::shape;
  std::int64_t max = kLargestDim;
};

inline Dim work_dim(Dim dim) { return dim.role = DimRole::work, dim; }
inline Dim parallel_dim(Dim dim) { return dim.role = DimRole::parallel, dim; }
inline Dim data_dim(Dim dim) { return dim.role = DimRole::data, dim; }

/// Compulsory traffic (every needed byte once) and arithmetic of a problem.
struct Cost {
  double bytes = 0;
  double flops = 0;
  /// TF32 products in place of an fp32 one, where the op may multiply fp32 on tensor cores: 1, or 3 for the
  /// accuracy of fp32. 0: it may not.
  int tf32_products = 0;
  bool fp8_products = false;  // both operands are fp8: tensor cores are twice as fast as in 16 bits
};

/// The allowed error against the fp64 reference. int32 and int64 are compared exactly. The references of
/// 8-bit outputs are not rounded, so an error counts only beyond the rounding error of the output.
struct Tolerance {
  double rel_l2 = 0;   // ||out - ref|| <= rel_l2 * ||ref||
  double max_rel = 0;  // max |out - ref| <= max_rel * max |ref|
};
/// The usual bounds: inputs rounded to dtype, accumulation in fp32, output rounded once.
/// `roundings`: how many roundings to dtype the definition of the op contains (1 for a plain reduction).
Tolerance default_tolerance(DType dtype, int roundings = 1);
/// A bound for results that depend on an fp32 sum of `terms` terms. Each addition rounds by at most 2^-24 of
/// a partial sum, and independent roundings add up to sqrt(terms) of one. Short sums keep the given bound.
Tolerance with_long_sum(Tolerance tolerance, std::int64_t terms);

struct Op {
  std::string name, summary;
  std::vector<Dim> dims;
  std::vector<DType> dtypes = {DType::fp32, DType::fp16, DType::bf16};

  /// Throws InputError where dims contradict each other (q_heads not a multiple of kv_heads). May be empty.
  std::function<void(const Problem&)> check;
  /// The tensors in the order `bind` takes them. The seed only matters for tensors with given contents.
  std::function<std::vector<TensorSpec>(const Problem&, std::uint64_t seed)> tensors;
  /// Fills the op's args.h struct from tensor addresses and the variant's workspace (null if it wants none).
  /// Empty: declare() puts bind_fields() here.
  std::function<Args(const Problem&, std::span<void* const> tensors, void* workspace)> bind = {};
  /// The members of that struct, the largest where it depends on the problem; tensors have their own names.
  std::vector<ArgsField> fields = {};
  /// The size of the struct that a problem has; empty: that of the largest.
  std::function<std::size_t(const Problem&)> args_bytes = {};
  std::function<Cost(const Problem&)> cost;
  /// How many results share each value that is read (query heads per KV head); empty: one.
  std::function<double(const Problem&)> sharing = {};
  /// How many independent parts (units) the result has: rows, heads.
  std::function<std::int64_t(const Problem&)> units;
  /// Computes the expected outputs of one unit in fp64 from the inputs as rounded to dtype.
  std::function<void(const Problem&, const Inputs&, std::int64_t unit, Expected&)> reference;
  std::function<Tolerance(const Problem&)> tolerance;

  /// A problem from given values: fills in defaults, orders them as `dims`, checks all. Throws InputError.
  Problem problem(const Assignment& given, DType dtype) const;
  /// The same from text: values are numbers or labels.
  Problem problem(std::span<const std::pair<std::string, std::string>> given, DType dtype) const;
  const Dim* find_dim(std::string_view name) const;
};

/// Throws InputError where the value is out of range for this dim, which has no labels.
void check_dim(const Op& op, const Dim& dim, std::int64_t value);

/// Fills the struct of a problem from its fields. Throws InputError for a number that its member cannot hold.
Args bind_fields(const Op& op, const Problem& problem, std::span<void* const> tensors, void* workspace);

}  // namespace warptune
