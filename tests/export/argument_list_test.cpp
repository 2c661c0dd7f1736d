// Lists of arguments of kernels from files, as parts of the exported struct.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "harness/core/error.h"
#include "harness/export/launch_model.h"

namespace warptune {
namespace {

constexpr std::size_t kStructBytes = 20;  // of the op; the exported one is aligned to 8
using Kind = KernelArgument::Kind;
using Arguments = std::function<std::vector<KernelArgument>(const Problem&)>;

template <class T>
KernelArgument value_of(T value) {
  KernelArgument argument{.kind = Kind::value, .bytes = sizeof value};
  std::memcpy(argument.value.data(), &value, sizeof value);
  return argument;
}

Stage stage_with(Arguments arguments) {
  CustomKernel kernel;
  kernel.arguments = [arguments = std::move(arguments)](const Problem& p, const Config&) {
    return arguments(p);
  };
  return {.file = "k.cu", .kernel = "k", .custom = std::make_shared<const CustomKernel>(std::move(kernel))};
}

std::vector<Problem> problems_of(const std::vector<std::int64_t>& tokens) {
  std::vector<Problem> problems;
  for (const std::int64_t t : tokens)
    problems.push_back({.op = "op", .dims = {{"tokens", t}, {"width", 64}}, .dtype = DType::bf16});
  return problems;
}

std::optional<ArgumentList> listed(Arguments arguments,
                                   const std::vector<std::int64_t>& tokens = {1, 7, 64}) {
  return argument_list(stage_with(std::move(arguments)), {}, problems_of(tokens), kStructBytes, {"tokens"});
}

/// The argument as a reader of the folder would pass it for this number of tokens.
std::vector<std::byte> passed(const ArgumentModel& argument, const ArgsLayout& layout, std::int64_t tokens) {
  std::vector<std::byte> args(layout.bytes);
  for (const ExportedField& f : layout.fields) {
    const std::int64_t value = !f.dim.empty() ? tokens : static_cast<std::int64_t>(f.value.value_or(0));
    EXPECT_LE(f.field.offset + f.field.bytes, layout.bytes) << f.field.name;
    EXPECT_EQ(f.field.offset % f.field.bytes, 0u) << f.field.name;
    std::memcpy(args.data() + f.field.offset, &value, f.field.bytes);
  }
  return {args.begin() + static_cast<std::ptrdiff_t>(argument.offset),
          args.begin() + static_cast<std::ptrdiff_t>(argument.offset + argument.bytes)};
}

TEST(ArgumentList, AKernelThatTakesTheStructHasNone) {
  EXPECT_FALSE(listed([](const Problem&) { return std::vector<KernelArgument>{{.bytes = kStructBytes}}; }));
  EXPECT_FALSE(argument_list({.file = "k.cu", .kernel = "k"}, {}, problems_of({1}), kStructBytes, {}));
  EXPECT_TRUE(listed([](const Problem&) { return std::vector<KernelArgument>{{.bytes = 8}}; }))
      << "the first member alone is no struct";
  EXPECT_TRUE(listed([](const Problem&) {
    return std::vector<KernelArgument>{{.bytes = kStructBytes}, {.bytes = 8}};
  }));
  EXPECT_EQ(listed([](const Problem&) { return std::vector<KernelArgument>{}; }), ArgumentList{})
      << "a kernel without parameters takes no struct";
}

TEST(ArgumentList, EveryNumberArrivesBitForBit) {
  const std::vector<KernelArgument> given = {value_of(-7),
                                             value_of(0.1f),
                                             value_of(0.1),
                                             value_of(std::int64_t{0x0123456789abcdef}),
                                             value_of(std::uint64_t{0xfedcba9876543210}),
                                             value_of(std::uint32_t{0xffffffff}),
                                             value_of(true),
                                             value_of(std::uint16_t{0x3c00})};
  auto list = listed([&](const Problem&) { return given; });
  ASSERT_TRUE(list.has_value());
  ArgsLayout layout{.bytes = kStructBytes};
  place_arguments(*list, 0, layout);
  ASSERT_EQ(list->size(), given.size());
  for (std::size_t a = 0; a < given.size(); ++a) {
    const auto bytes = passed((*list)[a], layout, 1);
    ASSERT_EQ(bytes.size(), given[a].bytes);
    EXPECT_EQ(std::memcmp(bytes.data(), given[a].value.data(), bytes.size()), 0) << a;
    EXPECT_GE((*list)[a].offset, kStructBytes) << "it does not overlap the op's struct";
  }
}

TEST(ArgumentList, MembersKeepTheirPlaceAndDimsAreTakenFromTheProblem) {
  auto list = listed([](const Problem& p) {
    return std::vector<KernelArgument>{{.bytes = 8, .offset = 8},
                                       value_of(static_cast<int>(p["tokens"])),
                                       value_of(static_cast<std::int64_t>(p["tokens"])),
                                       value_of(static_cast<int>(p["width"])),
                                       {.kind = Kind::workspace, .bytes = 8}};
  });
  ASSERT_TRUE(list.has_value());
  ArgsLayout layout{.bytes = kStructBytes};
  place_arguments(*list, 2, layout);
  EXPECT_EQ((*list)[0].offset, 8u);
  EXPECT_EQ((*list)[1].dim, "tokens");
  EXPECT_EQ((*list)[2].dim, "tokens");
  EXPECT_EQ((*list)[3].dim, "");
  int tokens = 0;
  std::memcpy(&tokens, passed((*list)[1], layout, 33).data(), sizeof tokens);
  EXPECT_EQ(tokens, 33);
  std::int64_t wide = 0;
  std::memcpy(&wide, passed((*list)[2], layout, 33).data(), sizeof wide);
  EXPECT_EQ(wide, 33);
  const auto workspace = std::ranges::find(layout.fields, true, &ExportedField::workspace);
  ASSERT_NE(workspace, layout.fields.end());
  EXPECT_EQ(workspace->field.offset, (*list)[4].offset);
  EXPECT_EQ(workspace->field.name, "stage2.argument4");
  EXPECT_TRUE(workspace->field.is_pointer());
  EXPECT_EQ(layout.bytes % 8, 0u);
}

TEST(ArgumentList, ANumberThatChangesOtherwiseIsRefused) {
  const auto changing = [](const Problem& p) {
    return std::vector<KernelArgument>{value_of(2 * static_cast<int>(p["tokens"]))};
  };
  EXPECT_THROW(listed(changing), InputError);
  EXPECT_TRUE(listed(changing, {7}).has_value()) << "for one problem it is a number";
  EXPECT_THROW(listed([](const Problem& p) {
                 return std::vector<KernelArgument>{value_of(static_cast<int>(p["tokens"] == 7))};
               }),
               InputError);
}

TEST(ArgumentList, AStructureIsRefusedByItsPlace) {
  try {
    listed([](const Problem&) {
      return std::vector<KernelArgument>{
          value_of(1), {.kind = Kind::structure, .bytes = 16, .members = {value_of(2), value_of(3)}}};
    });
    FAIL() << "it was exported";
  } catch (const InputError& e) {
    EXPECT_STREQ(e.what(), "argument 1 is a structure, which is not exported");
  }
}

TEST(ArgumentList, AWorkspaceOfTheOpIsUsed) {
  auto list = listed([](const Problem&) {
    return std::vector<KernelArgument>{value_of(1), {.kind = Kind::workspace, .bytes = 8}};
  });
  ASSERT_TRUE(list.has_value());
  ArgsLayout layout{.bytes = 24};
  ExportedField& own = layout.fields.emplace_back();
  own.field.offset = 16;
  own.field.bytes = 8;
  own.workspace = true;
  place_arguments(*list, 0, layout);
  EXPECT_EQ((*list)[1].offset, 16u);
  EXPECT_EQ(std::ranges::count(layout.fields, true, &ExportedField::workspace), 1);
}

}  // namespace
}  // namespace warptune
