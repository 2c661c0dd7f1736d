#pragma once
// Kernels from a file that take a list of arguments in place of the op's args struct. Every argument becomes
// a part of the exported struct: a member of the op's, or one that is added to it.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/core/variant.h"
#include "harness/export/args_layout.h"

namespace warptune {

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

}  // namespace warptune
