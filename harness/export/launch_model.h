#pragma once
// The launches of a configuration for a box of problems: numbers, and formulas where they change inside of
// it; and how another program fills the op's args struct, or the list of arguments of a kernel from a file,
// of which every one becomes a part of the exported struct: a member of the op's, or one that is added to it.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/core/op.h"
#include "harness/core/op_table.h"
#include "harness/core/variant.h"

namespace warptune {

/// A member of the args struct of a problem. Exactly one of the last four says what it holds.
struct ExportedField {
  ArgsField field;
  std::string tensor;  // a pointer: the tensor of this name, `tensor_offset` bytes after its begin
  std::int64_t tensor_offset = 0;
  bool workspace = false;       // a pointer: the workspace
  std::string dim;              // a number: the value of this dim
  std::optional<double> value;  // a number: the default; a pointer without tensor: 0
  bool required = false;        // a number that the caller sets: it follows from no dim alone
};

struct ArgsLayout {
  std::size_t bytes = 0;
  std::vector<ExportedField> fields;
};

/// The bytes of the args of a problem, with marker addresses in place of tensors and of the workspace.
class MarkedArgs {
 public:
  /// Throws InputError if the op does not describe its args struct, or not all members of this problem's.
  MarkedArgs(const Op& op, const Problem& problem);

  const std::vector<std::byte>& bytes() const { return bytes_; }
  const std::vector<ArgsField>& fields() const { return fields_; }
  const std::vector<TensorSpec>& tensors() const { return tensors_; }
  /// An integer, or an address.
  std::int64_t whole(const ArgsField& field) const;
  double real(const ArgsField& field) const;
  /// The tensor that an address lies in, tensors().size() for the workspace; empty for null.
  std::optional<std::size_t> tensor_of(std::int64_t address) const;
  /// Bytes from the begin of its tensor.
  std::int64_t offset_in_tensor(std::int64_t address) const;

 private:
  std::vector<TensorSpec> tensors_;
  std::vector<std::byte> bytes_;
  std::vector<ArgsField> fields_;  // those inside of this problem's struct
};

/// `varied`: legal problems that differ in dims of work only; they tell which numbers follow a dim. Throws
/// InputError as MarkedArgs.
ArgsLayout args_layout(const Op& op, const Problem& problem, const std::vector<Problem>& varied);

/// An argument of a kernel, for all problems of a box.
struct ArgumentModel {
  std::size_t offset = 0, bytes = 0;  // in the exported struct
  bool is_member = false;             // a member of the op's struct
  bool is_workspace = false;          // memory that the plan owns
  std::string dim = {};               // it is the value of this dim
  std::uint64_t value = 0;            // else: its bytes, the first at the low end

  bool operator==(const ArgumentModel&) const = default;
};
using ArgumentList = std::vector<ArgumentModel>;

/// The list of a stage's kernel; empty for one that takes the op's struct. Throws InputError where an
/// argument changes from problem to problem and is no dim of `work_dims`.
std::optional<ArgumentList> argument_list(const Stage& stage, const Config& config,
                                          const std::vector<Problem>& problems, std::size_t struct_bytes,
                                          const std::vector<std::string>& work_dims);

/// Adds the members that the list of stage `index` needs to the struct, and sets their offsets.
void place_arguments(ArgumentList& list, std::size_t index, ArgsLayout& layout);

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
  Swizzle swizzle = Swizzle::none;
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
