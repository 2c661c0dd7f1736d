// The fields of every op, which kernels from a file name as their arguments.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "variants/table.h"

namespace warptune {
namespace {

/// The largest args struct of an op, and its tensors, over problems with each value of its optional dims.
struct Seen {
  std::size_t bytes = 0;
  std::set<std::string> tensors;
};

Seen seen_of(const Op& op) {
  Seen seen;
  const auto add = [&](Assignment dims) {
    for (const Dim& dim : op.dims)
      if (!dim.fallback && !dims.has(dim.name)) dims.set(dim.name, std::min<std::int64_t>(32, dim.max));
    try {
      const Problem problem = op.problem(dims, op.dtypes.back());
      for (const TensorSpec& spec : op.tensors(problem, 1)) seen.tensors.insert(spec.name);
      void* const tensors[64] = {};
      seen.bytes = std::max(seen.bytes, op.bind(problem, tensors, nullptr).size());
    } catch (const std::exception&) {  // dims that contradict each other
    }
  };
  add({});
  for (const Dim& dim : op.dims)
    for (std::int64_t value = 1; dim.fallback && value < 5; ++value) {
      add({{dim.name, value}});
      add({{"append", 1}, {dim.name, value}});
    }
  return seen;
}

TEST(Fields, LieInTheStructAndDoNotOverlap) {
  for (const OpEntry& entry : ops()) {
    const Seen seen = seen_of(entry.op);
    ASSERT_GT(seen.bytes, 0u) << entry.op.name;
    std::set<std::string> names;
    for (const ArgsField& field : entry.op.fields) {
      EXPECT_TRUE(names.insert(field.name).second) << entry.op.name << " " << field.name;
      EXPECT_LE(field.offset + field.bytes, seen.bytes) << entry.op.name << " " << field.name;
      EXPECT_EQ(field.offset % field.bytes, 0u) << entry.op.name << " " << field.name;
      EXPECT_EQ(field.bytes,
                field.type == "pointer" || field.type == "double" || field.type == "long long" ? 8u : 4u);
      for (const ArgsField& other : entry.op.fields)
        EXPECT_TRUE(field.offset == other.offset || field.offset + field.bytes <= other.offset ||
                    other.offset + other.bytes <= field.offset)
            << entry.op.name << " " << field.name << " " << other.name;
    }
  }
}

TEST(Fields, EveryTensorIsAmongThem) {
  for (const OpEntry& entry : ops())
    for (const std::string& tensor : seen_of(entry.op).tensors) {
      const auto it = std::ranges::find(entry.op.fields, tensor, &ArgsField::name);
      ASSERT_NE(it, entry.op.fields.end()) << entry.op.name << " " << tensor;
      EXPECT_EQ(it->type, "pointer") << entry.op.name << " " << tensor;
    }
}

/// Each pointer field of a tensor is where `bind` puts the tensor's address.
TEST(Fields, AreWhereBindPutsTheTensors) {
  for (const OpEntry& entry : ops()) {
    Assignment dims;
    for (const Dim& dim : entry.op.dims)
      if (!dim.fallback) dims.set(dim.name, std::min<std::int64_t>(32, dim.max));
    const Problem problem = entry.op.problem(dims, entry.op.dtypes.back());
    const auto specs = entry.op.tensors(problem, 1);
    std::vector<char> memory(specs.size());
    std::vector<void*> tensors;
    for (char& byte : memory) tensors.push_back(&byte);
    const Args args = entry.op.bind(problem, tensors, nullptr);
    for (std::size_t i = 0; i < specs.size(); ++i) {
      const auto it = std::ranges::find(entry.op.fields, specs[i].name, &ArgsField::name);
      ASSERT_NE(it, entry.op.fields.end());
      const void* bound = nullptr;
      std::memcpy(&bound, static_cast<const char*>(args.data()) + it->offset, sizeof bound);
      if (bound) {
        EXPECT_EQ(bound, tensors[i]) << entry.op.name << " " << specs[i].name;
      }
    }
  }
}

}  // namespace
}  // namespace warptune
