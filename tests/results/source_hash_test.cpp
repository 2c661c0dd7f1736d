#include "harness/results/source_hash.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "variants/table.h"

namespace warptune {
namespace {
namespace fs = std::filesystem;

const Compiler kCompiler(KernelSources(), {});

const Variant* vendor_variant() {
  for (const Variant& variant : find_op("linear").variants)
    if (variant.vendor) return &variant;
  return nullptr;
}

TEST(SourceHash, OfKernelsIsTheCompilersAlone) {
  // Rows and winners that were recorded hang on it.
  const Variant& variant = find_op("rms_norm").variant("vectorized");
  EXPECT_EQ(source_hash(kCompiler, find_op("rms_norm"), variant), kCompiler.source_hash(variant));
}

TEST(SourceHash, OfHostVariantsIsThatOfTheirOpsFiles) {
  const auto of = [](const char* op, const char* variant) {
    return source_hash(kCompiler, find_op(op), find_op(op).variant(variant));
  };
  EXPECT_EQ(of("rms_norm", "host_naive"), of("rms_norm", "host_threaded"));
  EXPECT_NE(of("rms_norm", "host_naive"), of("softmax", "host_naive"));
  EXPECT_EQ(of("rms_norm", "host_naive").size(), 16u);
}

TEST(SourceHash, OfALibraryHoldsItsVersion) {
  const Variant* vendor = vendor_variant();
  if (!vendor) GTEST_SKIP() << "built without a vendor's library";
  EXPECT_NE(source_hash(kCompiler, find_op("linear"), *vendor),
            source_hash(kCompiler, find_op("linear"), find_op("linear").variant("host_naive")));
}

TEST(SourceHash, OfKernelsBetweenLibraryCallsHoldsBoth) {
  for (const Variant& variant : find_op("attention_decode").variants) {
    if (variant.stages.empty() || !calls_library(variant)) continue;
    const std::string hash = source_hash(kCompiler, find_op("attention_decode"), variant);
    EXPECT_NE(hash, kCompiler.source_hash(variant));
    Variant other = variant;
    std::erase_if(other.stages, [](const Stage& stage) { return !stage.library; });
    EXPECT_NE(hash, source_hash(kCompiler, find_op("attention_decode"), other)) << "without its kernels";
    return;
  }
  GTEST_SKIP() << "built without a vendor's library";
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
  std::ostringstream text;
  text << std::ifstream(out).rdbuf();
  return text.str();
}

TEST(SourceHash, AnyEditOfTheOpOrOfCommonFilesChangesIt) {
  const fs::path tree = fs::path(::testing::TempDir()) / "source_hash";
  fs::remove_all(tree);
  for (const char* folder : {"common", "op_a", "op_b"}) fs::create_directories(tree / "variants" / folder);
  const auto write = [&](const char* file, const char* text) {
    std::ofstream(tree / "variants" / file) << text;
  };
  write("op_a/op.cpp", "1");
  write("op_b/op.cpp", "1");
  write("common/rows.h", "1");
  const std::string before = table_of(tree);
  EXPECT_NE(before.find("{\"op_a\", \""), std::string::npos) << before;
  EXPECT_EQ(table_of(tree), before);
  write("op_a/host.cpp", "2");
  const std::string edited = table_of(tree);
  EXPECT_NE(edited, before);
  EXPECT_EQ(edited.substr(edited.find("op_b")), before.substr(before.find("op_b")));
  write("common/rows.h", "2");
  const std::string common = table_of(tree);
  EXPECT_NE(common.substr(common.find("op_b")), before.substr(before.find("op_b")));

  fs::create_directories(tree / "variants" / "vendor");
  write("op_b/vendor.cpp", "#include \"vendor/product.h\"\n");
  write("vendor/product.h", "1");
  const std::string first = table_of(tree);
  write("vendor/product.h", "2");
  const std::string second = table_of(tree);
  EXPECT_EQ(second.substr(0, second.find("op_b")), first.substr(0, first.find("op_b"))) << "op_a calls none";
  EXPECT_NE(second.substr(second.find("op_b")), first.substr(first.find("op_b")));
}

}  // namespace
}  // namespace warptune
