// The tensors of all ops: their cache states and their members in the args struct.
#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/support.h"

namespace warptune::testing {
namespace {

/// A small problem of an op: 8 in each dim without a default, or the least, the first label of a choice.
Problem small_problem(const Op& op) {
  Assignment dims;
  for (const Dim& dim : op.dims)
    if (!dim.fallback)
      dims.set(dim.name, dim.labels.empty() ? std::max<std::int64_t>(8, dim.min) : 0,
               dim.labels.empty() ? "" : dim.labels[0]);
  return op.problem(dims, op.dtypes.front());
}

TEST(Tensors, WeightsAndCachesAreCold) {
  std::map<std::string, std::set<std::string>> cold;
  for (const OpEntry& entry : ops())
    for (const TensorSpec& spec : entry.op.tensors(small_problem(entry.op), 1))
      if (spec.cache != CacheState::hot) cold[entry.op.name].insert(spec.name);
  const std::map<std::string, std::set<std::string>> expected = {
      {"add_rms_norm", {"weight"}},
      {"all_reduce_add_rms_norm", {"weight"}},
      {"attention_decode", {"k_cache", "v_cache"}},
      {"attention_prefill", {"k_cache", "out", "q", "v_cache"}},
      {"embedding", {"table"}},
      {"linear", {"weight"}},
      {"logits_dot_v", {"v_cache"}},
      {"rms_norm", {"weight"}},
      {"rope_append", {"bias", "k_cache", "v_cache"}}};
  EXPECT_EQ(cold, expected);
}

TEST(Tensors, AreBoundToTheMembersOfTheirNames) {
  const std::set<std::string> unused = {"rope_append bias", "softmax mask"};  // by these problems
  for (const OpEntry& entry : ops()) {
    const Op& op = entry.op;
    const Problem problem = small_problem(op);
    const auto specs = op.tensors(problem, 1);
    std::vector<char> memory(specs.size() + 1);
    std::vector<void*> addresses;
    for (std::size_t i = 0; i < specs.size(); ++i) addresses.push_back(&memory[i]);
    const Args args = op.bind(problem, addresses, &memory.back());
    std::set<std::string> bound;
    for (const ArgsField& field : op.fields) {
      if (field.offset + field.bytes > args.size()) continue;  // of a larger struct
      const auto* member = static_cast<const std::byte*>(args.data()) + field.offset;
      for (std::size_t i = 0; i < specs.size(); ++i) {
        if (specs[i].name != field.name || !field.is_pointer()) continue;
        const void* address = nullptr;
        std::memcpy(&address, member, sizeof(address));
        if (address == nullptr && unused.contains(op.name + " " + field.name)) continue;
        EXPECT_EQ(address, addresses[i]) << op.name << ": " << field.name;
        bound.insert(field.name);
      }
      if (op.find_dim(field.name) && field.type == "int") {
        int value = 0;
        std::memcpy(&value, member, sizeof(value));
        EXPECT_EQ(value, problem[field.name]) << op.name << ": " << field.name;
      }
    }
    EXPECT_FALSE(bound.empty()) << op.name;
  }
}

TEST(Tensors, AreOfOpsWhoseDimsAreExplained) {
  for (const OpEntry& entry : ops()) {
    EXPECT_NE(entry.op.summary, "") << entry.op.name;
    for (const Dim& dim : entry.op.dims) EXPECT_NE(dim.doc, "") << entry.op.name << ": " << dim.name;
  }
}

TEST(Tensors, HaveAMemberEach) {
  for (const OpEntry& entry : ops()) {
    std::set<std::string> members;
    for (const ArgsField& field : entry.op.fields) {
      EXPECT_NE(field.name, "") << entry.op.name;
      EXPECT_TRUE(members.insert(field.name).second) << entry.op.name << ": " << field.name << " twice";
    }
    for (const TensorSpec& spec : entry.op.tensors(small_problem(entry.op), 1))
      EXPECT_TRUE(members.contains(spec.name)) << entry.op.name << ": " << spec.name;
  }
}

}  // namespace
}  // namespace warptune::testing
