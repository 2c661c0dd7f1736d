// The definitions of kernels: what they become, and the sentence of each mistake.
#include <gtest/gtest.h>

#include "harness/core/space.h"
#include "harness/device/argument_values.h"
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
  ASSERT_EQ(variant.constraints.size(), 1u);
  EXPECT_EQ(variant.constraints[0].text(), "(1) == 0 || has_pdl");
  const Config config{{"block", 128}};
  const Launch launch = launch_of(variant, variant.stages[0], small(), config);
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
               .arguments = "arguments: [x, weight, y, scales]",
               .launch = "launch: {grid: out, block: block}"};
  const auto table = table_of(write(kernel_folder("lacks") / "kernels.yaml", d.text()));
  const OpEntry& entry = table->find("linear");
  const Assignment dims{{"tokens", 1}, {"in", 64}, {"out", 64}};
  const auto& kernel = *entry.variant("scale").stages[0].custom;
  EXPECT_EQ(kernel.arguments(entry.op.problem(dims, DType::bf16), {})[3].kind, KernelArgument::Kind::value);
  Assignment quantized = dims;
  quantized.set("weights", 1);
  EXPECT_EQ(kernel.arguments(entry.op.problem(quantized, DType::bf16), {})[3].kind,
            KernelArgument::Kind::member);
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
  EXPECT_EQ(launch_of(mine, mine.stages[0], small(), config).grid.x,
            launch_of(naive, naive.stages[0], small(), config).grid.x);
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

TEST(KernelDefinition, ParametersMayBeWords) {
  Definition d{.kernel = "kernel: \"typed<{vector}, {block}>\"",
               .arguments = "arguments: [x, y, vector]",
               .define = "define: {MODE: mode, FAST: fast}",
               .parameters =
                   "parameters: {block: [64], vector: [float, float4, \"ns::pair<int>\"], mode: [row, "
                   "column], fast: [true, false]}",
               .launch = "launch: {grid: \"(vector == float4) ? tokens / 4 : tokens\", block: block}",
               .more = "constraints: [\"mode == column || vector == float\"]"};
  const auto table = table_of(write(kernel_folder("words") / "kernels.yaml", d.text()));
  const Variant& variant = table->find("rms_norm").variant("scale");
  const auto configs = Space(variant, small(), known_device("sm_80")).configs();
  std::vector<std::string> texts;
  for (const Config& config : configs) texts.push_back(config.str());
  EXPECT_EQ(texts.size(), 8u);
  EXPECT_EQ(texts.front(), "block=64,vector=float,mode=row,fast=true");
  EXPECT_EQ(texts.back(), "block=64,vector=ns::pair<int>,mode=column,fast=false");
  const Config config = parse_config(variant, "block=64,vector=float4,mode=column,fast=true");
  const Problem four = find_op("rms_norm").op.problem(Assignment{{"tokens", 8}, {"hidden", 64}}, DType::bf16);
  const Stage& stage = variant.stages[0];
  EXPECT_EQ(stage.custom->name(four, config), "typed<float4, 64>");
  EXPECT_EQ(stage.custom->defines(four, config), (std::vector<std::string>{"-DMODE=column", "-DFAST=true"}));
  EXPECT_EQ(launch_of(variant, stage, four, config).grid.x, 2u);
  EXPECT_EQ(static_cast<int>(stage.custom->arguments(four, config)[2].value[0]), 1)
      << "its place in the list";
  EXPECT_THROW(parse_config(variant, "block=64,vector=float8,mode=row,fast=true"), InputError);
}

TEST(KernelDefinition, ArgumentsHaveTypesAndStructures) {
  Definition d;
  d.arguments =
      "arguments: [{size_t: 5000000000}, {unsigned: 4294967295}, {bool: 1}, {half: 1.5}, {dtype: 2}, "
      "{struct: [x, "
      "{half: 2}, {float: 3}, {bool: 1}, {struct: [{int: 4}, eps]}]}]";
  const auto table = table_of(write(kernel_folder("types") / "kernels.yaml", d.text()));
  const auto list =
      table->find("rms_norm").variant("scale").stages[0].custom->arguments(small(), Config{{"block", 64}});
  std::vector<std::size_t> sizes;
  for (const KernelArgument& argument : list) sizes.push_back(argument.bytes);
  EXPECT_EQ(sizes, (std::vector<std::size_t>{8, 4, 1, 2, 2, 32}));
  struct Inner {
    int four;
    float eps;
  };
  struct Outer {
    const void* x;
    _Float16 two;
    float three;
    bool one;
    Inner inner;
  } got{};
  static_assert(sizeof(Outer) == 32);
  float x = 0;
  const std::vector<TensorSpec> specs = find_op("rms_norm").op.tensors(small(), 1);
  std::vector<void*> tensors(specs.size(), &x);
  const Args args = find_op("rms_norm").op.bind(small(), tensors, nullptr);
  void* const workspace = nullptr;
  const ArgumentValues values(list, args.data(), workspace);
  std::memcpy(&got, values.addresses()[5], sizeof got);
  EXPECT_EQ(got.x, &x);
  EXPECT_EQ(static_cast<float>(got.two), 2);
  EXPECT_EQ(got.three, 3);
  EXPECT_TRUE(got.one);
  EXPECT_EQ(got.inner.four, 4);
  EXPECT_GT(got.inner.eps, 0);
  std::size_t large = 0;
  std::memcpy(&large, values.addresses()[0], sizeof large);
  EXPECT_EQ(large, 5'000'000'000u);
  EXPECT_EQ(round_to(DType::bf16, 2), load(DType::bf16, values.addresses()[4], 0));
}

TEST(KernelDefinition, AValueThatItsTypeDoesNotHoldIsTold) {
  const fs::path folder = kernel_folder("type_range");
  const auto error = [&](const std::string& argument) {
    const auto table = table_of(
        write(folder / "kernels.yaml", Definition{.arguments = "arguments: [" + argument + "]"}.text()));
    return testing::message_of<CompileError>(
        folder, [&] { table->find("rms_norm").variant("scale").stages[0].custom->arguments(small(), {}); });
  };
  const std::string end = " for rms_norm[tokens=3,hidden=4096,dtype=bf16]; it must be ";
  EXPECT_EQ(error("3000000000"),
            "kernels.yaml:6: argument '3000000000' is 3000000000" + end + "at most 2147483647");
  EXPECT_EQ(error("{bool: tokens}"), "kernels.yaml:6: argument 'tokens' is 3" + end + "at most 1");
  EXPECT_EQ(error("{float: 1 / (tokens - 3)}"),
            "kernels.yaml:6: argument '1 / (tokens - 3)' is nan" + end + "a number that fp32 holds");
  EXPECT_EQ(error("{half: 1e6}"),
            "kernels.yaml:6: argument '1e6' is 1000000" + end + "a number that fp16 holds");
}

TEST(KernelDefinition, ALaunchMayDependOnTheDeviceAndBeCooperative) {
  Definition d{.launch = "launch: {grid: \"min(sms * 2, tokens * 1000)\", block: block, cooperative: yes}"};
  const auto table = table_of(write(kernel_folder("sms") / "kernels.yaml", d.text()));
  const Config config{{"block", 64}};
  const auto launch = [&](const Variant& variant, const DeviceFacts& facts = {}) {
    return launch_of(variant, variant.stages[0], small(), config, facts);
  };
  const Variant& by_sms = table->find("rms_norm").variant("scale");
  EXPECT_EQ(launch(by_sms, known_device("sm_80")).grid.x, 216u);
  EXPECT_EQ(launch(by_sms, known_device("sm_90a")).grid.x, 264u);
  EXPECT_EQ(launch(by_sms).grid.x, 2u) << "of one SM";
  EXPECT_TRUE(launch(by_sms).cooperative);
  d.launch = "launch: {grid: tokens, block: block, cooperative: no, pdl: yes}";
  const auto other = table_of(write(kernel_folder("sms") / "kernels.yaml", d.text()));
  const Variant& variant = other->find("rms_norm").variant("scale");
  EXPECT_FALSE(launch(variant).cooperative);
  EXPECT_TRUE(launch(variant).pdl);
  ASSERT_EQ(variant.constraints.size(), 1u);
  EXPECT_EQ(variant.constraints[0].text(), "(1) == 0 || has_pdl");
}

TEST(KernelDefinition, ConstantMemoryIsFilledFromValuesAndTensors) {
  Definition d{
      .more =
          "constant: {factors: {float: [1, 1 / tokens]}, \"ns::inner::weights\": weight, one: {long long: "
          "hidden}}"};
  const auto table = table_of(write(kernel_folder("constant") / "kernels.yaml", d.text()));
  const CustomKernel& kernel = *table->find("rms_norm").variant("scale").stages[0].custom;
  const std::vector<ConstantMemory> list = kernel.constants(small(), {});
  ASSERT_EQ(list.size(), 3u);
  EXPECT_EQ(list[0].symbol, "factors");
  ASSERT_EQ(list[0].value.size(), 8u);
  EXPECT_EQ(load(DType::fp32, list[0].value.data(), 1), 1.0f / 3);
  EXPECT_EQ(list[1].symbol, "_ZN2ns5inner7weightsE");
  EXPECT_EQ(list[1].tensor_bytes, 8192u);
  EXPECT_EQ(list[1].tensor_offset,
            std::ranges::find(find_op("rms_norm").op.fields, "weight", &ArgsField::name)->offset);
  EXPECT_EQ(list[2].value.size(), 8u);
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
  EXPECT_EQ(
      wrong({.arguments = "arguments: [{short: 1}]"}),
      "kernels.yaml:6: an argument has the type 'short'; known are int, unsigned, long long, unsigned long "
      "long, size_t, bool, float, double, half");
  EXPECT_EQ(wrong({.arguments = "arguments: [{int: 1, float: 2}]"}),
            "kernels.yaml:6: an argument must be {TYPE: expression}, with one type");
  begins(wrong({.arguments = "arguments: [{struct: x}]"}), "kernels.yaml:6: 'struct' must be a list");
  begins(wrong({.arguments = "arguments: [{struct: [x, {floot: 1}]}]"}),
         "kernels.yaml:6: an argument has the type 'floot'; did you mean 'float'?");
  EXPECT_EQ(
      wrong({.more = "constant: {factors: wait}"}),
      "kernels.yaml:10: constant 'factors' is 'wait', which is no tensor of op 'rms_norm' and no {TYPE: "
      "expression}; tensors are x, weight, y");
  EXPECT_EQ(wrong({.more = "constant: {factors: {floot: 1}}"}),
            "kernels.yaml:10: constant 'factors' has the type 'floot'; did you mean 'float'?");
  EXPECT_EQ(wrong({.more = "constant: {3x: {float: 1}}"}),
            "kernels.yaml:10: '3x' cannot be a __constant__ variable: its name, with namespaces, is");
  begins(wrong({.launch = "launch: {grid: tokens, block: block, cooperative: perhaps}"}),
         "kernels.yaml:9: unknown name 'perhaps'");
  begins(wrong({.launch = "launch: {grid: tokens * , block: block}"}), "kernels.yaml:9:");
  EXPECT_EQ(wrong({.launch = "launch: {grid: token, block: block}"}),
            "kernels.yaml:9: unknown name 'token' at position 1 of 'grid' 'token'; did you mean 'tokens'?");
  EXPECT_EQ(wrong({.launch = "launch: {grid: tokens}"}), "kernels.yaml:9: 'launch' needs 'block'");
  begins(wrong({.launch = ""}), "kernels.yaml:2: a kernel needs 'launch' with ");
  begins(wrong({.kernel = "kernel: \"plain<{blok}>\""}), "kernels.yaml:5: unknown name 'blok'");
  EXPECT_EQ(wrong({.kernel = "kernel: \"plain<{block\""}),
            "kernels.yaml:5: 'kernel' 'plain<{block' has a '{' without '}'");
  EXPECT_EQ(wrong({.parameters = "parameters: {hidden: [1]}"}),
            "kernels.yaml:8: parameter 'hidden' has the name of a dim of the op");
  EXPECT_EQ(wrong({.parameters = "parameters: {block: [64, many]}"}),
            "kernels.yaml:8: parameter 'block' is 'many'; it must be an integer");
  EXPECT_EQ(wrong({.parameters = "parameters: {block: [one, true]}"}),
            "kernels.yaml:8: parameter 'block' has true or false beside other words");
  begins(wrong({.parameters = "parameters: {block: ['a,b']}"}),
         "kernels.yaml:8: parameter 'block' has the value 'a,b'; it must be an integer or a word");
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
