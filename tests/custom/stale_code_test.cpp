// An edited file makes machine code stale, however a source includes it. NVRTC runs without a GPU.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "harness/device/source_closure.h"
#include "tests/custom/kernel_file.h"

#if WARPTUNE_HAS_CUDA
namespace warptune {
namespace {

using testing::Definition;
using testing::table_of;
using testing::write;
namespace fs = std::filesystem;

const std::string kBody =
    "\nextern \"C\" __global__ void plain(const void* x, void* y, int hidden, float eps) {\n"
    "  static_cast<float*>(y)[0] = FACTOR * eps + hidden;\n}\n";

/// A source, and the file whose edit changes its code.
struct Spelling {
  const char* name;
  std::string source;  // before the kernel
  const char* header = "factor.h";
  std::string more = "{}";                                       // of the definition
  std::vector<std::pair<std::string, std::string>> others = {};  // files
};

class StaleCode : public ::testing::TestWithParam<Spelling> {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) / "stale" / GetParam().name;
    fs::remove_all(folder_);
    write(folder_ / "scale.cu", GetParam().source + kBody);
    for (const auto& [name, text] : GetParam().others) write(folder_ / name, text);
    std::string more = GetParam().more;
    if (const auto at = more.find("FOLDER"); at != std::string::npos) more.replace(at, 6, folder_.string());
    file_ = write(folder_ / "kernels.yaml", Definition{.more = more}.text());
  }
  /// The code and the hash of the sources, by a process that begins now.
  std::pair<Cubin, std::string> built(int block = 64) const {
    const Compiler compiler(KernelSources(), folder_ / "cache");
    const auto table = table_of(file_);
    const OpEntry& op = table->find("rms_norm");
    const Variant& variant = op.variant("scale");
    const Problem problem = op.op.problem(Assignment{{"tokens", 3}, {"hidden", 64}}, DType::fp32);
    return {compiler.compile(variant, variant.stages[0], problem, Config{{"block", block}}, "sm_90a"),
            compiler.source_hash(variant)};
  }
  fs::path folder_, file_;
};

TEST_P(StaleCode, IsNotServedFromTheCache) {
  const fs::path header = folder_ / GetParam().header;
  write(header, "#define FACTOR 2\n");
  const auto [first, first_hash] = built();
  EXPECT_FALSE(first.from_cache);
  const auto [again, again_hash] = built();
  EXPECT_TRUE(again.from_cache);
  EXPECT_EQ(again.code, first.code);
  EXPECT_EQ(again_hash, first_hash);

  write(header, "#define FACTOR 3\n");  // of the same size
  const auto [edited, edited_hash] = built();
  EXPECT_FALSE(edited.from_cache);
  EXPECT_NE(edited.code, first.code);
  EXPECT_NE(edited_hash, first_hash);

  write(header, "#define FACTOR 2\n");
  const auto [restored, restored_hash] = built();
  EXPECT_TRUE(restored.from_cache);
  EXPECT_EQ(restored.code, first.code);
  EXPECT_EQ(restored_hash, first_hash);
}

INSTANTIATE_TEST_SUITE_P(
    Spellings, StaleCode,
    ::testing::Values(
        Spelling{"plain", "#include \"factor.h\""}, Spelling{"angles", "#include <factor.h>"},
        Spelling{"macro", "#define HEADER \"factor.h\"\n#include HEADER"},
        Spelling{"joined", "#define TEXT(x) #x\n#define NAME(x) TEXT(x.h)\n#include NAME(factor)"},
        Spelling{"digraph", "%:include \"factor.h\""},
        Spelling{"trigraph", "?\?=include \"factor.h\"", "factor.h", "options: [-std=c++14]"},
        Spelling{"comments", "#/* a */include/* b */ /* c */\"factor.h\""},
        Spelling{"splice", "#inc\\\nlude \"fac\\\ntor.h\""},
        Spelling{"pre_include", "", "factor.h", "options: [--pre-include=factor.h]"},
        Spelling{"symbol", "#include HEADER", "factor.h", "options: ['-DHEADER=\"factor.h\"']"},
        Spelling{"absolute", "#define TEXT(x) #x\n#define NAME(x) TEXT(x)\n#include NAME(ROOT/factor.h)",
                 "factor.h", "options: ['-DROOT=FOLDER']"},
        Spelling{"next",
                 "#include <factor.h>",
                 "b/factor.h",
                 "include: [a, b]",
                 {{"a/factor.h", "#include_next <factor.h>\n"}}},
        Spelling{"nested",
                 "#include \"sub/one.h\"",
                 "sub/factor.h",
                 "{}",
                 {{"sub/one.h", "#define HEADER \"factor.h\"\n#include HEADER\n"}}},
        Spelling{"of_an_architecture", "#if __CUDA_ARCH__ >= 900\n#include \"factor.h\"\n#endif"},
        Spelling{"of_a_configuration",
                 "#if BLOCK == 64\n#define HEADER \"factor.h\"\n#else\n#define HEADER \"other.h\"\n"
                 "#endif\n#include HEADER",
                 "factor.h",
                 "{}",
                 {{"other.h", "#define FACTOR 1\n"}}},
        Spelling{"parent",
                 "#include \"to/one.h\"",
                 "real/factor.h",
                 "{}",
                 {{"to/one.h", "#include \"../real/factor.h\"\n"}}}),
    [](const auto& info) { return std::string(info.param.name); });

/// Files whose presence decides.
class PresentFile : public StaleCode {};

TEST_P(PresentFile, DecidesTheCode) {
  const auto first = built().first;
  EXPECT_FALSE(first.from_cache);
  const fs::path header = write(folder_ / GetParam().header, "#define FACTOR 3\n");
  const auto added = built().first;
  EXPECT_FALSE(added.from_cache);
  EXPECT_NE(added.code, first.code);
  fs::remove(header);
  EXPECT_EQ(built().first.code, first.code);
}

INSTANTIATE_TEST_SUITE_P(
    Places, PresentFile,
    ::testing::Values(
        Spelling{"asked_for",
                 "#if __has_include(\"new.h\")\n#include \"new.h\"\n#else\n#define FACTOR 2\n#endif",
                 "new.h"},
        Spelling{"only_asked_for",
                 "#if __has_\\\ninclude(\"new.h\")\n#define FACTOR 3\n#else\n#define FACTOR 2\n#endif",
                 "new.h"},
        Spelling{"earlier_folder",
                 "#include <factor.h>",
                 "a/factor.h",
                 "include: [a, b]",
                 {{"a/none", ""}, {"b/factor.h", "#define FACTOR 2\n"}}},
        Spelling{"beside_the_source",
                 "#include \"factor.h\"",
                 "factor.h",
                 "include: [b]",
                 {{"b/factor.h", "#define FACTOR 2\n"}}},
        Spelling{"hides_a_header_of_the_toolkit",
                 "#include <limits>\n#ifndef FACTOR\n#define FACTOR 2\n#endif", "limits"}),
    [](const auto& info) { return std::string(info.param.name); });

class KernelSource : public ::testing::Test {
 protected:
  fs::path folder_of(const std::string& name, const std::string& source) const {
    const fs::path folder = fs::path(::testing::TempDir()) / "kernel_source" / name;
    fs::remove_all(folder);
    write(folder / "scale.cu", source + kBody);
    return folder;
  }
};

TEST_F(KernelSource, ThatChangesAfterItWasReadIsRefused) {
  const fs::path folder = folder_of("changes", "#define HEADER \"factor.h\"\n#include HEADER");
  write(folder / "factor.h", "#define FACTOR 2\n");
  const auto table = table_of(write(folder / "kernels.yaml", Definition().text()));
  const OpEntry& op = table->find("rms_norm");
  const Variant& variant = op.variant("scale");
  const Problem problem = op.op.problem(Assignment{{"tokens", 3}, {"hidden", 64}}, DType::fp32);
  const Compiler compiler(KernelSources(), folder / "cache");
  const auto compile = [&] {
    compiler.compile(variant, variant.stages[0], problem, Config{{"block", 64}}, "sm_80");
  };
  compile();
  write(folder / "factor.h", "#define FACTOR 3\n");
  EXPECT_EQ(testing::message_of<CompileError>(folder, compile),
            "'scale.cu', or a file that it includes, has changed since it was read; start again");
}

TEST_F(KernelSource, IncludesOnlyRegularFiles) {
  for (const auto& [name, include] :
       {std::pair("pipe", "#include \"pipe.h\""), std::pair("link", "#include \"link.h\""),
        std::pair("macro", "#define TEXT(x) #x\n#define NAME(x) TEXT(x.h)\n#include NAME(pipe)"),
        std::pair("device", "#define HEADER \"/dev/zero\"\n#include HEADER")}) {
    const fs::path folder = folder_of(name, include);
    ASSERT_EQ(::mkfifo((folder / "pipe.h").c_str(), 0600), 0);
    fs::create_symlink("/dev/zero", folder / "link.h");
    const std::string error = testing::error_of(folder, Definition());
    EXPECT_NE(error.find("kernels.yaml:4: 'scale.cu' includes '"), std::string::npos) << error;
    EXPECT_NE(error.find("', which is not a regular file"), std::string::npos) << error;
  }
  const fs::path folder = folder_of("option", "");
  ASSERT_EQ(::mkfifo((folder / "pipe.h").c_str(), 0600), 0);
  const std::string error = testing::error_of(folder, Definition{.more = "options: [--pre-include=pipe.h]"});
  EXPECT_NE(error.find("includes 'pipe.h', which is not a regular file"), std::string::npos) << error;
}

/// The hash of the sources does not depend on where they are.
TEST_F(KernelSource, HasNamesRelativeToItsFolders) {
  const fs::path folder =
      folder_of("names", "#include \"../beside/one.h\"\n#include <two.h>\n#include <cuda_bf16.h>");
  write(folder / "../beside/one.h", "");
  write(folder / "lib/two.h", "#define FACTOR 1\n");
  const auto table = table_of(write(folder / "kernels.yaml", Definition{.more = "include: [lib]"}.text()));
  std::vector<std::string> names;
  for (const auto& [name, text] : table->find("rms_norm").variant("scale").stages[0].custom->files)
    names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"scale.cu", "../beside/one.h", "lib/two.h"}));
}

}  // namespace
}  // namespace warptune
#endif
