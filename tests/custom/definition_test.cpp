// The definitions of kernels: what they become, and the sentence of each mistake.
#include <gtest/gtest.h>

#include "tests/custom/kernel_file.h"

namespace warptune {
namespace {

using testing::Definition;
using testing::error_of;
using testing::kernel_folder;
using testing::table_of;
using testing::write;
namespace fs = std::filesystem;

const Problem& small() {
  static const Problem problem =
      find_op("rms_norm").op.problem(Assignment{{"tokens", 3}, {"hidden", 4096}}, DType::bf16);
  return problem;
}

TEST(KernelDefinition, BecomesAVariantBesideTheBuiltInOnes) {
  const fs::path folder = kernel_folder("definition");
  Definition d;
  d.kernel = "kernel: \"typed<{dtype}, {block * 2}>\"";
  d.launch = "launch: {grid: [\"ceil_div(tokens, 2)\", 2], block: block, shared: 4 * block, pdl: 1}";
  d.more = "dtypes: [bf16, fp32]";
  const auto table = table_of(write(folder / "kernels.yaml", d.text()));
  const OpEntry& entry = table->find("rms_norm");
  EXPECT_EQ(entry.variants.size(), find_op("rms_norm").variants.size() + 1);
  const Variant& variant = entry.variant("scale");
  EXPECT_EQ(variant.backend, Backend::cuda);
  EXPECT_EQ(variant.dtypes, (std::vector{DType::bf16, DType::fp32}));
  EXPECT_EQ(variant.constraints, std::vector<std::string>{"(1) == 0 || has_pdl"});
  const Config config{{"block", 128}};
  const Launch launch = variant.stages[0].launch(small(), config);
  EXPECT_EQ(launch.grid.x, 2u);
  EXPECT_EQ(launch.grid.y, 2u);
  EXPECT_EQ(launch.block.x, 128u);
  EXPECT_EQ(launch.shared_bytes, 512);
  EXPECT_TRUE(launch.pdl);
  const CustomKernel& kernel = *variant.stages[0].custom;
  EXPECT_EQ(kernel.name(small(), config), "typed<__nv_bfloat16, 256>");
  EXPECT_EQ(kernel.defines(small(), config), std::vector<std::string>{"-DBLOCK=128"});
  ASSERT_EQ(kernel.files.size(), 2u);
  EXPECT_EQ(kernel.files[1].first, "factor.cuh");
}

TEST(KernelDefinition, ArgumentsAreMembersDimsParametersAndNumbers) {
  Definition d;
  d.arguments =
      "arguments: [y, tokens, hidden, block, 7, {float: 1 / hidden}, {long long: tokens * hidden}, eps]";
  const fs::path folder = kernel_folder("arguments");
  const auto table = table_of(write(folder / "kernels.yaml", d.text()));
  const Variant& variant = table->find("rms_norm").variant("scale");
  const auto list = variant.stages[0].custom->arguments(small(), Config{{"block", 64}});
  using Kind = KernelArgument::Kind;
  const auto& fields = find_op("rms_norm").op.fields;
  const auto offset = [&](const char* name) {
    return std::ranges::find(fields, name, &ArgsField::name)->offset;
  };
  ASSERT_EQ(list.size(), 8u);
  EXPECT_EQ(list[0].kind, Kind::member);
  EXPECT_EQ(list[0].offset, offset("y"));
  EXPECT_EQ(list[1].offset, offset("tokens"));  // the member, as built-in kernels get it
  EXPECT_EQ(list[7].offset, offset("eps"));
  const auto int_at = [&](std::size_t i) {
    EXPECT_EQ(list[i].kind, Kind::value);
    EXPECT_EQ(list[i].bytes, 4u);
    int value = 0;
    std::memcpy(&value, list[i].value.data(), 4);
    return value;
  };
  EXPECT_EQ(int_at(2), 4096);
  EXPECT_EQ(int_at(3), 64);
  EXPECT_EQ(int_at(4), 7);
  float inverse = 0;
  std::memcpy(&inverse, list[5].value.data(), 4);
  EXPECT_EQ(inverse, 1.0f / 4096);
  long long product = 0;
  std::memcpy(&product, list[6].value.data(), 8);
  EXPECT_EQ(product, 3 * 4096);
}

TEST(KernelDefinition, AMemberThatTheStructOfAProblemLacksIsZero) {
  Definition d{.op = "linear",
               .arguments = "arguments: [x, weight, y, residual]",
               .launch = "launch: {grid: out, block: block}"};
  const auto table = table_of(write(kernel_folder("lacks") / "kernels.yaml", d.text()));
  const OpEntry& entry = table->find("linear");
  const Assignment dims{{"tokens", 1}, {"in", 64}, {"out", 64}};
  const auto& kernel = *entry.variant("scale").stages[0].custom;
  EXPECT_EQ(kernel.arguments(entry.op.problem(dims, DType::bf16), {})[3].kind, KernelArgument::Kind::value);
  Assignment fused = dims;
  fused.set("epilogue", 1);
  EXPECT_EQ(kernel.arguments(entry.op.problem(fused, DType::bf16), {})[3].kind, KernelArgument::Kind::member);
}

TEST(KernelDefinition, TakesOverABuiltInVariant) {
  Definition d{.kernel = "kernel: plain",
               .arguments = "arguments: args",
               .define = "",
               .parameters = "",
               .launch = "",
               .more = "like: naive"};
  const auto table = table_of(write(kernel_folder("like") / "kernels.yaml", d.text()));
  const Variant& mine = table->find("rms_norm").variant("scale");
  const Variant& naive = table->find("rms_norm").variant("naive");
  ASSERT_EQ(mine.parameters.size(), naive.parameters.size());
  const Config config{{"block", 256}};
  EXPECT_EQ(mine.stages[0].launch(small(), config).grid.x, naive.stages[0].launch(small(), config).grid.x);
  const auto arguments = mine.stages[0].custom->arguments(small(), config);
  ASSERT_EQ(arguments.size(), 1u);
  EXPECT_EQ(arguments[0].bytes, 32u);
}

TEST(KernelDefinition, ADefinitionIsPartOfTheHashOfItsSources) {
  const fs::path folder = kernel_folder("hash");
  const Compiler compiler(KernelSources(), {});
  const auto hash = [&](const Definition& d) {
    return compiler.source_hash(
        table_of(write(folder / "kernels.yaml", d.text()))->find("rms_norm").variant("scale"));
  };
  const std::string first = hash({});
  EXPECT_EQ(hash({}), first);
  EXPECT_NE(hash({.launch = "launch: {grid: tokens, block: block, shared: 64}"}), first);
  write(folder / "factor.cuh", "__device__ inline float factor(float eps) { return 3 * eps; }\n");
  EXPECT_NE(hash({}), first);
}

TEST(KernelDefinition, EveryMistakeIsOneSentenceWithItsLine) {
  const fs::path folder = kernel_folder("mistakes");
  const auto wrong = [&](const Definition& d) { return error_of(folder, d); };
  const auto begins = [](const std::string& text, const std::string& beginning) {
    EXPECT_TRUE(text.starts_with(beginning)) << text;
  };
  EXPECT_EQ(wrong({}), "none");
  EXPECT_EQ(wrong({.op = "rms_nrm"}), "kernels.yaml:3: unknown op 'rms_nrm'; did you mean 'rms_norm'?");
  EXPECT_EQ(wrong({.name = "naive"}),
            "kernels.yaml:2: op 'rms_norm' has a variant 'naive' already; choose another name");
  EXPECT_EQ(wrong({.name = "a-b"}),
            "kernels.yaml:2: 'a-b' cannot name a variant: letters, digits and '_' can");
  begins(wrong({.source = "source: scal.cu"}), "kernels.yaml:4: 'scal.cu' cannot be");
  EXPECT_EQ(wrong({.source = ""}),
            "kernels.yaml:2: a kernel needs 'source', a .cu file, or 'cubin' or 'fatbin'");
  EXPECT_EQ(wrong({.arguments = "arguments: [x, wieght]"}),
            "kernels.yaml:6: op 'rms_norm' has no argument 'wieght'; did you mean 'weight'?");
  EXPECT_EQ(wrong({.arguments = "arguments: [x, workspace]"}),
            "kernels.yaml:6: the argument 'workspace' needs the key 'workspace', its size in bytes");
  EXPECT_EQ(wrong({.arguments = "arguments: x"}),
            "kernels.yaml:6: 'arguments' must be a list of names, or args for the op's struct");
  EXPECT_EQ(wrong({.arguments = "arguments: [{half: 1}]"}),
            "kernels.yaml:6: unknown key 'half' in an argument with a type; known are int, long long, float, "
            "double");
  begins(wrong({.launch = "launch: {grid: tokens * , block: block}"}), "kernels.yaml:9:");
  EXPECT_EQ(wrong({.launch = "launch: {grid: token, block: block}"}),
            "kernels.yaml:9: unknown name 'token' at position 1 of 'grid' 'token'; it may use block, tokens, "
            "hidden, "
            "dtype_bytes");
  EXPECT_EQ(wrong({.launch = "launch: {grid: tokens}"}), "kernels.yaml:9: 'launch' needs 'block'");
  begins(wrong({.launch = ""}), "kernels.yaml:2: a kernel needs 'launch' with ");
  begins(wrong({.kernel = "kernel: \"plain<{blok}>\""}), "kernels.yaml:5: unknown name 'blok'");
  EXPECT_EQ(wrong({.kernel = "kernel: \"plain<{block\""}),
            "kernels.yaml:5: 'kernel' 'plain<{block' has a '{' without '}'");
  EXPECT_EQ(wrong({.parameters = "parameters: {hidden: [1]}"}),
            "kernels.yaml:8: parameter 'hidden' has the name of a dim of the op");
  EXPECT_EQ(wrong({.parameters = "parameters: {block: [many]}"}),
            "kernels.yaml:8: parameter 'block' is 'many'; it must be a whole number");
  EXPECT_EQ(wrong({.define = "define: {1X: block}"}), "kernels.yaml:7: '1X' cannot be a preprocessor symbol");
  EXPECT_EQ(wrong({.more = "dtypes: [int32]"}), "kernels.yaml:10: op 'rms_norm' does not take dtype int32");
  begins(wrong({.more = "constraints: [blok > 1]"}), "kernels.yaml:10: unknown name 'blok'");
  EXPECT_EQ(wrong({.more = "include: no_such_folder"}),
            "kernels.yaml:10: the folder 'no_such_folder' does not exist");
  EXPECT_EQ(wrong({.more = "options: fast"}),
            "kernels.yaml:10: the compiler option 'fast' does not begin with '-'");
  EXPECT_EQ(wrong({.more = "like: host_naive"}),
            "kernels.yaml:10: 'like' is 'host_naive', which has no kernels of its own");
  EXPECT_EQ(wrong({.more = "lunch: 1"}),
            "kernels.yaml:10: unknown key 'lunch' in an item of 'kernels'; did you mean 'launch'?");
  EXPECT_EQ(wrong({.more = "stages: [{kernel: plain}]"}),
            "kernels.yaml:5: 'kernel' belongs to the items of 'stages', where there are any");
}

TEST(KernelDefinition, FilesOfKernelsAreNamedByOthers) {
  const fs::path folder = kernel_folder("files");
  write(folder / "kernels.yaml", Definition().text());
  const fs::path other = write(folder / "more" / "other.yaml", "kernel_files: ../kernels.yaml\n");
  EXPECT_NE(table_of(other)->find("rms_norm").find_variant("scale"), nullptr);
  const fs::path files[] = {other, folder / "kernels.yaml"};  // each is read once
  EXPECT_NE(with_kernels(ops(), files)->find("rms_norm").find_variant("scale"), nullptr);
  EXPECT_THROW(table_of(write(folder / "lost.yaml", "kernel_files: [none.yaml]\n")), InputError);
  EXPECT_THROW(table_of(write(folder / "no.yaml", "ops: []\n")), InputError);
}

}  // namespace
}  // namespace warptune
