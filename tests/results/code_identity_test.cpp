// A winner is valid while its machine code is unchanged, whatever happens to the text of its sources.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <regex>

#include "harness/core/error.h"
#include "harness/device/cubin_file.h"
#include "harness/results/source_hash.h"
#include "tests/files.h"
#include "variants/table.h"

namespace warptune {
namespace {
namespace fs = std::filesystem;
using testing::text_of;

constexpr const char* kKernel = "rms_norm/naive.cu";

void write(const fs::path& path, const std::string& text) { std::ofstream(path) << text; }

/// A copy of kernels/ that a test edits, and the winner of its unedited sources.
class CodeIdentity : public ::testing::Test {
 protected:
  void SetUp() override {
#if !WARPTUNE_HAS_CUDA
    GTEST_SKIP() << "built without the CUDA Toolkit";
#endif
    fs::create_directories(kernels_);
    fs::copy(fs::path(SOURCE_ROOT) / "kernels", kernels_, fs::copy_options::recursive);
    const Compiler compiler(KernelSources(kernels_), {});
    winner_.source_hash = source_hash(compiler, ops(), winner_);
    winner_.code_hash = code_hash(compiler, find_op("rms_norm"), winner_);
    ASSERT_EQ(winner_.code_hash.size(), 16u);
  }
  void edit(const std::string& file, const std::function<std::string(std::string)>& change) {
    const std::string before = text_of(kernels_ / file), after = change(before);
    ASSERT_NE(before, after) << file;
    write(kernels_ / file, after);
  }
  /// Replaces a pattern in every file below kernels/.
  void replace_everywhere(const std::string& pattern, const std::string& by) {
    for (const auto& entry : fs::recursive_directory_iterator(kernels_))
      if (entry.is_regular_file())
        write(entry.path(), std::regex_replace(text_of(entry.path()), std::regex(pattern), by));
  }
  /// The header of kernels/common that the kernel includes first.
  std::string common_header() const {
    std::smatch m;
    const std::string text = text_of(kernels_ / kKernel);
    return std::regex_search(text, m, std::regex("kernels/(common/[a-z_]+\\.cuh)")) ? m[1].str()
                                                                                    : std::string();
  }
  Judgement judged(const Provenance& here = kHere) const {
    const Compiler compiler(KernelSources(kernels_), {});
    return judge(winner_, here, code_now(compiler, ops(), winner_));
  }
  bool sources_are_same() const {
    return source_hash(Compiler(KernelSources(kernels_), {}), ops(), winner_) == winner_.source_hash;
  }

  static inline const Provenance kHere{"NVIDIA A100", "sm_80", "580.1", "13.0", "abc"};
  const fs::path kernels_ = fs::path(::testing::TempDir()) /
                            ::testing::UnitTest::GetInstance()->current_test_info()->name() / "kernels";
  Winner winner_{
      .problem = find_op("rms_norm").op.problem(Assignment{{"tokens", 4}, {"hidden", 256}}, DType::bf16),
      .variant = "naive",
      .config = {{"block", 128}},
      .made_on = kHere};
};

TEST_F(CodeIdentity, AnEditedCommentChangesNothing) {
  edit(kKernel, [](std::string text) { return "// another comment, on a line of its own\n" + text; });
  EXPECT_FALSE(sources_are_same());
  EXPECT_EQ(judged().use, Use::yes);
}

TEST_F(CodeIdentity, ARenamedFunctionChangesNothing) {
  replace_everywhere("\\bblock_reduce\\b", "reduce_over_block");
  EXPECT_FALSE(sources_are_same());
  EXPECT_EQ(judged().use, Use::yes);
}

TEST_F(CodeIdentity, AMovedFileChangesNothing) {
  const std::string header = common_header();
  ASSERT_FALSE(header.empty());
  fs::rename(kernels_ / header, kernels_ / "common/moved.cuh");
  replace_everywhere("kernels/" + header, "kernels/common/moved.cuh");
  EXPECT_FALSE(sources_are_same());
  EXPECT_EQ(judged().use, Use::yes);
}

TEST_F(CodeIdentity, AnUnusedHelperChangesNothing) {
  edit(common_header(), [](const std::string& text) {
    return text +
           "\nnamespace warptune {\ninline constexpr float kUnused = 3;\n__device__ inline float "
           "unused_helper(float x) { return x * kUnused; }\n}\n";
  });
  EXPECT_FALSE(sources_are_same());
  EXPECT_EQ(judged().use, Use::yes);
}

TEST_F(CodeIdentity, AChangedConstantRefusesTheWinner) {
  edit(kKernel, [](const std::string& text) {
    return std::regex_replace(text, std::regex("args\\.eps"), "(args.eps + 0.25f)");
  });
  const Judgement judgement = judged();
  EXPECT_EQ(judgement.use, Use::refused);
  EXPECT_EQ(judgement.refusals, std::vector<std::string>{"tuned on other code of its kernels"});
}

TEST_F(CodeIdentity, CodeOfAnotherToolkitIsNotComparable) {
  Provenance here = kHere;
  here.toolkit = "12.9";
  EXPECT_EQ(judged(here).use, Use::warned) << "the same sources";
  edit(kKernel, [](std::string text) { return "// a comment\n" + text; });
  EXPECT_EQ(judged(here).use, Use::refused);
}

TEST_F(CodeIdentity, AWinnerWithoutACodeHashIsJudgedByItsSources) {
  winner_.code_hash.clear();
  EXPECT_EQ(judged().use, Use::yes);
  edit(kKernel, [](std::string text) { return "// a comment\n" + text; });
  EXPECT_EQ(judged().use, Use::refused);
}

TEST(MachineCode, AnIncompleteElfFileIsRefused) {
  EXPECT_THROW(machine_code_hash(""), CompileError);
  EXPECT_THROW(machine_code_hash(std::string(64, 'x')), CompileError);
}

TEST(MachineCode, TheGeometryOfALaunchIsPartOfAConfiguration) {
#if !WARPTUNE_HAS_CUDA
  GTEST_SKIP() << "built without the CUDA Toolkit";
#endif
  const Compiler compiler(KernelSources(), {});
  const OpEntry& op = find_op("rms_norm");
  const auto hash = [&](std::int64_t tokens) {
    const Problem problem = op.op.problem(Assignment{{"tokens", tokens}, {"hidden", 256}}, DType::bf16);
    return code_hash(compiler, op.variant("naive"), problem, {{"block", 128}}, "sm_80");
  };
  EXPECT_NE(hash(4), hash(5)) << "one kernel, two grids";
  EXPECT_EQ(hash(4), hash(4));
}

}  // namespace
}  // namespace warptune
