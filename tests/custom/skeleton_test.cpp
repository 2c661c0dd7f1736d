// The first files of a kernel of the user compile as they are, for every op.

#include <gtest/gtest.h>

#include "harness/core/space.h"
#include "harness/custom/kernel_files.h"
#include "tests/custom/kernel_file.h"

namespace warptune {
namespace {

namespace fs = std::filesystem;

/// The problem of the sweep in a skeleton.
Problem problem_in(const fs::path& yaml, const Op& op) {
  const YamlReader reader(yaml.string());
  std::vector<std::pair<std::string, std::string>> dims;
  for (const auto& pair : reader.root()["ops"][0]["problems"][0])
    dims.emplace_back(pair.first.Scalar(), pair.second.Scalar());
  return op.problem(dims, op.dtypes.back());
}

fs::path written(const fs::path& folder, const std::vector<std::pair<std::string, std::string>>& files) {
  for (const auto& [file, text] : files) testing::write(folder / file, text);
  return folder / files.back().first;
}

TEST(Skeleton, OfEveryOpIsLikeItsNaiveVariant) {
  const fs::path folder = fs::path(::testing::TempDir()) / "skeletons";
  for (const OpEntry& entry : ops()) {
    const std::string name = "my_" + entry.op.name;
    if (exchanges_between_gpus(entry)) {
      EXPECT_THROW(kernel_skeleton(entry, name, KernelSources()), InputError) << "it runs on several GPUs";
      continue;
    }
    const fs::path yaml = written(folder, kernel_skeleton(entry, name, KernelSources()));
    const auto table = testing::table_of(yaml);
    const Variant& mine = table->find(entry.op.name).variant(name);
    const Problem problem = problem_in(yaml, entry.op);
    const DeviceFacts device = known_device("sm_80");
    const auto configs = Space(mine, problem, device).configs();
    ASSERT_FALSE(configs.empty()) << name;
#if WARPTUNE_HAS_CUDA
    const Compiler compiler(KernelSources(), {});
    for (const Stage* stage : active_kernels(mine, problem, configs.front())) try {
        EXPECT_GT(compiler.compile(mine, *stage, problem, configs.front(), "sm_80").registers, 0) << name;
      } catch (const CompileError& e) {
        ADD_FAILURE() << name << ": " << e.what();
      }
#endif
  }
}

TEST(Skeleton, OfAnOpHasAKernelAndAReference) {
  const fs::path folder = fs::path(::testing::TempDir()) / "op_skeleton";
  const fs::path yaml = written(folder, op_skeleton("twice"));
  const auto table = testing::table_of(yaml);
  const OpEntry& entry = table->find("twice");
  const Problem problem = entry.op.problem(Assignment{{"rows", 2}, {"columns", 8}}, DType::fp32);
  const auto specs = entry.op.tensors(problem, 1);
  const Inputs inputs(specs, 1);
  Expected expected;
  entry.op.reference(problem, inputs, 0, expected);
  ASSERT_EQ(expected.runs().size(), 1u);
  for (std::int64_t i = 0; i < 16; ++i)
    EXPECT_DOUBLE_EQ(expected.runs()[0].values[static_cast<std::size_t>(i)], 0.5 * inputs["x"][i]);
#if WARPTUNE_HAS_CUDA
  const Variant& variant = entry.variant("one_thread_per_element");
  const Compiler compiler(KernelSources(), {});
  EXPECT_GT(compiler.compile(variant, variant.stages[0], problem, Config{{"block", 128}}, "sm_90a").registers,
            0);
#endif
  EXPECT_THROW(op_skeleton("a-b"), InputError);
}

}  // namespace
}  // namespace warptune
