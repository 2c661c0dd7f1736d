#pragma once
// How another program fills an op's args struct: offsets, and where each value comes from.
#include <optional>
#include <string>
#include <vector>

#include "harness/core/op.h"

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
  void set(const ArgsField& field, std::int64_t value);
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

}  // namespace warptune
