#include "harness/results/source_hash.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>

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

TEST(SourceHash, CoversTheCodeOfAVariant) {
  const fs::path tree = fs::path(::testing::TempDir()) / "source_hash";
  fs::remove_all(tree);
  for (const char* folder : {"helpers", "vendor", "op_a", "op_b"})
    fs::create_directories(tree / "variants" / folder);
  const auto write = [&](const char* file, const char* text) {
    std::ofstream(tree / "variants" / file) << text;
  };
  for (const char* file :
       {"op_a/op.cpp", "op_b/op.cpp", "op_b/vendor.cpp", "helpers/rows.h", "vendor/gemm.h"})
    write(file, "int one;  // a comment\n");
  /// The hashes of an op: host, library.
  const auto hashes = [&](const std::string& op) {
    const std::string table = table_of(tree);
    std::smatch m;
    const std::regex row("\\{\"" + op + "\", \"(\\w+)\", \"(\\w+)\"");
    EXPECT_TRUE(std::regex_search(table, m, row)) << table;
    return std::pair(m[1].str(), m[2].str());
  };
  const auto a = hashes("op_a"), b = hashes("op_b");
  write("op_b/op.cpp", "int  one;\n  // another comment\n");
  EXPECT_EQ(hashes("op_b"), b);
  write("op_a/host.cpp", "int two;");
  EXPECT_NE(hashes("op_a").first, a.first);
  EXPECT_EQ(hashes("op_b"), b);
  write("op_b/vendor.cpp", "int two;");
  EXPECT_EQ(hashes("op_b").first, b.first);
  EXPECT_NE(hashes("op_b").second, b.second);
  write("vendor/gemm.h", "int two;");
  EXPECT_NE(hashes("op_a").second, a.second);
  write("helpers/rows.h", "int two;");
  EXPECT_NE(hashes("op_b").first, b.first);
}

}  // namespace
}  // namespace warptune
