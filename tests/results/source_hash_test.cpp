#include "harness/results/source_hash.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <utility>

#include "tests/files.h"
#include "variants/table.h"

namespace warptune {
namespace {
namespace fs = std::filesystem;
using testing::text_of;

const Compiler kCompiler(KernelSources(), {});

const Variant* vendor_variant() {
  for (const Variant& variant : find_op("linear").variants)
    if (variant.vendor) return &variant;
  return nullptr;
}

TEST(SourceHash, OfKernelsComesFromTheCompiler) {
  // Recorded rows and winners depend on this hash.
  const Variant& variant = find_op("rms_norm").variant("vectorized");
  EXPECT_EQ(source_hash(kCompiler, find_op("rms_norm"), variant), kCompiler.source_hash(variant));
}

TEST(SourceHash, OfHostVariantsCoversTheFilesOfTheirOp) {
  const auto of = [](const char* op, const char* variant) {
    return source_hash(kCompiler, find_op(op), find_op(op).variant(variant));
  };
  EXPECT_EQ(of("rms_norm", "host_naive"), of("rms_norm", "host_threaded"));
  EXPECT_NE(of("rms_norm", "host_naive"), of("softmax", "host_naive"));
  EXPECT_EQ(of("rms_norm", "host_naive").size(), 16u);
}

TEST(SourceHash, OfALibraryIncludesItsVersion) {
  const Variant* vendor = vendor_variant();
  if (!vendor) GTEST_SKIP() << "built without a vendor library";
  EXPECT_NE(source_hash(kCompiler, find_op("linear"), *vendor),
            source_hash(kCompiler, find_op("linear"), find_op("linear").variant("host_naive")));
}

TEST(SourceHash, OfKernelsBetweenLibraryCallsCoversBoth) {
  for (const Variant& variant : find_op("attention_decode").variants) {
    if (variant.stages.empty() || !calls_library(variant)) continue;
    const std::string hash = source_hash(kCompiler, find_op("attention_decode"), variant);
    EXPECT_NE(hash, kCompiler.source_hash(variant));
    Variant other = variant;
    std::erase_if(other.stages, [](const Stage& stage) { return !stage.library; });
    EXPECT_NE(hash, source_hash(kCompiler, find_op("attention_decode"), other)) << "without its kernels";
    return;
  }
  GTEST_SKIP() << "built without a vendor library";
}

TEST(SourceHash, OfAVariantThatIsGoneIsEmpty) {
  const auto of = [](const char* op, const char* variant) {
    return source_hash(kCompiler, ops(), Winner{.problem = {op, {}, DType::fp32}, .variant = variant});
  };
  EXPECT_EQ(of("rms_norm", "no_such"), "");
  EXPECT_EQ(of("no_such", "naive"), "");
  EXPECT_EQ(of("rms_norm", "host_naive"),
            source_hash(kCompiler, find_op("rms_norm"), find_op("rms_norm").variant("host_naive")));
}

/// The generated table of a tree with one op.
std::string table_of(const fs::path& tree) {
  const fs::path out = tree / "hashes.h";
  const std::string command = "cmake -DROOT=" + (tree / "variants").string() + " -DOUTPUT=" + out.string() +
                              " -P " SOURCE_ROOT "/cmake/write_source_hashes.cmake";
  EXPECT_EQ(std::system(command.c_str()), 0);
  return text_of(out);
}

/// The text that the build generates for the commit of a tree.
std::string commit_of(const fs::path& tree) {
  const fs::path out = fs::path(::testing::TempDir()) / "git_commit.h";
  const std::string command = "cmake -DSOURCE_DIR=" + tree.string() + " -DOUTPUT=" + out.string() +
                              " -P " SOURCE_ROOT "/cmake/write_git_commit.cmake";
  EXPECT_EQ(std::system(command.c_str()), 0);
  std::smatch m;
  const std::string text = text_of(out);
  EXPECT_TRUE(std::regex_search(text, m, std::regex("kGitCommit = \"(.*)\""))) << text;
  return m[1].str();
}

TEST(GitCommit, SaysWhetherTheSourcesDiffer) {
  if (std::system("git --version > /dev/null") != 0) GTEST_SKIP() << "git is not here";
  const fs::path tree = fs::path(::testing::TempDir()) / "commit";
  fs::remove_all(tree);
  fs::create_directories(tree / "kernels");
  fs::create_directories(tree / "docs");
  EXPECT_EQ(commit_of(tree), "") << "no checkout";
  std::ofstream(tree / "kernels" / "a.cu") << "a";
  std::ofstream(tree / "docs" / "a.md") << "a";
  const std::string git =
      "git -C " + tree.string() + " -c user.name=t -c user.email=t@t -c commit.gpgsign=false ";
  ASSERT_EQ(std::system((git + "init -q && " + git + "add -A && " + git + "commit -q -m a").c_str()), 0);
  const std::string clean = commit_of(tree);
  EXPECT_TRUE(std::regex_match(clean, std::regex("[0-9a-f]{12}"))) << clean;
  std::ofstream(tree / "docs" / "a.md") << "b";
  EXPECT_EQ(commit_of(tree), clean) << "documents do not count";
  std::ofstream(tree / "kernels" / "a.cu") << "b";
  EXPECT_EQ(commit_of(tree), clean + "-dirty");
  std::ofstream(tree / "kernels" / "a.cu") << "a";
  EXPECT_EQ(commit_of(tree), clean);
  std::ofstream(tree / "kernels" / "new.cu") << "a";
  EXPECT_EQ(commit_of(tree), clean + "-dirty");
}

/// A tree with the files of a few ops, and the hashes that the build generates from it.
class VariantTree {
 public:
  explicit VariantTree(const std::string& name) : tree_(fs::path(::testing::TempDir()) / name) {
    fs::remove_all(tree_);
  }
  void write(const fs::path& file, const std::string& text) const {
    fs::create_directories((tree_ / "variants" / file).parent_path());
    std::ofstream(tree_ / "variants" / file) << text;
  }
  std::string host(const std::string& op) const { return hashes(op).first; }
  std::string library(const std::string& op) const { return hashes(op).second; }

 private:
  std::pair<std::string, std::string> hashes(const std::string& op) const {
    const std::string table = table_of(tree_);
    std::smatch m;
    const std::regex row("\\{\"" + op + "\", \"(\\w+)\", \"(\\w+)\"");
    EXPECT_TRUE(std::regex_search(table, m, row)) << table;
    return {m[1].str(), m[2].str()};
  }
  fs::path tree_;
};

TEST(SourceHash, OfHostVariantsCoversTheFolderOfTheOp) {
  const VariantTree tree("source_hash_host");
  for (const char* file : {"op_a/op.cpp", "op_b/op.cpp", "op_b/vendor.cpp", "helpers/rows.h"})
    tree.write(file, "int one;  // a comment\n");
  const std::string a = tree.host("op_a"), b = tree.host("op_b");
  tree.write("op_b/op.cpp", "int  one;\n  // another comment\n");
  EXPECT_EQ(tree.host("op_b"), b);
  tree.write("op_b/vendor.cpp", "int two;");
  EXPECT_EQ(tree.host("op_b"), b);
  tree.write("op_a/host.cpp", "int two;");
  EXPECT_NE(tree.host("op_a"), a);
  EXPECT_EQ(tree.host("op_b"), b);
  tree.write("helpers/rows.h", "int two;");
  EXPECT_NE(tree.host("op_b"), b);
}

TEST(SourceHash, OfALibraryFollowsWhatItsFilesInclude) {
  const VariantTree tree("source_hash_library");
  tree.write("op_a/op.cpp", "int one;");
  tree.write("op_a/vendor.cpp",
             "#include \"variants/op_a/op_a.h\"\n#include \"variants/vendor/batched.h\"\n");
  tree.write("op_a/op_a.h", "Op op_a();\nint one;");
  tree.write("vendor/batched.h", "#  include \"variants/plain.h\"\n");
  for (const char* file : {"vendor/batched.cpp", "plain.h", "vendor/of_others.h"})
    tree.write(file, "int one;");
  std::string hash = tree.library("op_a");
  const auto same = [&] { return tree.library("op_a") == hash; };
  const auto changes = [&] { return std::exchange(hash, tree.library("op_a")) != hash; };

  tree.write("op_a/op.cpp", "int two;");
  tree.write("vendor/of_others.h", "int two;");
  EXPECT_TRUE(same()) << "vendor.cpp includes neither";
  tree.write("op_a/op_a.h", "Op op_a();\nstd::vector<Variant> op_a_cuda();\nint one;");
  EXPECT_TRUE(same()) << "a declaration of other variants";
  tree.write("op_a/op_a.h", "Op op_a();\nint two;");
  EXPECT_TRUE(changes()) << "a header";
  tree.write("vendor/batched.cpp", "int two;");
  EXPECT_TRUE(changes()) << "the .cpp of a header";
  tree.write("plain.h", "int two;");
  EXPECT_TRUE(changes()) << "a header's header";
  tree.write("op_a/cudnn.cpp", "int one;");
  EXPECT_TRUE(changes()) << "a second library";
}

}  // namespace
}  // namespace warptune
