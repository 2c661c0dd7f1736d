#pragma once
// The launches of a configuration for a box of problems: numbers, and formulas where they change inside of
// it.
#include <optional>
#include <string>
#include <vector>

#include "harness/core/op_table.h"
#include "harness/export/argument_list.h"

namespace warptune {

/// The values of a dim from the first to the last.
struct DimRange {
  std::string dim;
  std::int64_t from = 1, to = 1;
  bool operator==(const DimRange&) const = default;
};
/// Ranges of the dims of DimRole::work of an op, in its order.
using DimBox = std::vector<DimRange>;

/// A tensor map whose dims and strides are expressions over members of the args struct.
struct TensorMapModel {
  std::string base;  // the member with the address
  DType dtype = DType::bf16;
  std::vector<Expression> dims, strides;
  std::vector<std::int64_t> box;
};

struct StageModel {
  std::string file, kernel;  // the source below kernels/, and the name expression
  Extents grid, block;
  Expression shared_bytes = 0, max_blocks = 0;
  unsigned cluster = 1;
  bool pdl = false, per_sm = false;
  std::vector<TensorMapModel> tensor_maps = {};
  std::optional<ArgumentList> arguments = {};  // empty: the op's struct
};

struct LaunchModel {
  std::vector<StageModel> stages;
  Expression workspace_bytes = 0;
};

/// A configuration that is compiled for a problem. Its kernels may serve other values of the dims of work.
class Specialization {
 public:
  /// All must outlive it.
  Specialization(const OpEntry& op, const Variant& variant, const Problem& problem, const Config& config,
                 const DeviceFacts& facts);

  /// The largest box inside of `limit` that the same kernels serve, with the problem as its upper corner.
  /// There they have the same names and attributes, and the configuration breaks no constraint: checked at
  /// both ends of each range and at values between.
  DimBox largest_box(const DimBox& limit) const;
  /// The launches in a box of largest_box(). Throws InputError for a launch that is not exported.
  LaunchModel launch(const DimBox& box) const;
  /// Problems of the box, its corners among them.
  std::vector<Problem> problems_in(const DimBox& box, std::size_t per_dim) const;

 private:
  bool serves(const DimBox& box) const;
  bool serves(const Problem& problem) const;
  std::int64_t lowest_served(const DimBox& box, std::size_t dim, std::int64_t from) const;
  Problem with(const DimBox& box, const std::vector<std::int64_t>& values) const;
  std::vector<std::string> kernels_of(const Problem& problem) const;
  LaunchModel model_of(const DimBox& box) const;
  StageModel model_of(const Stage& stage, const DimBox& box) const;
  std::vector<TensorMapModel> maps_of(const Stage& stage) const;
  /// An expression with numbers for all names but the dims that change in a box, and `kept`.
  Expression partial(const Expression& expression, const DimBox& box,
                     std::span<const std::string> kept = {}) const;
  /// The number of an expression that must not change in a box. Throws InputError that names it.
  std::int64_t constant(const Expression& expression, const DimBox& box, std::string_view what) const;

  const OpEntry& op_;
  const Variant& variant_;
  const Problem& problem_;
  const Config& config_;
  const DeviceFacts& facts_;
  std::vector<std::string> kernels_;
};

/// The same problem with another value of a dim; empty where it is not legal.
std::optional<Problem> with_dim(const Op& op, const Problem& problem, const std::string& dim,
                                std::int64_t value);

}  // namespace warptune
