#include "harness/core/space.h"

#include <gtest/gtest.h>

#include "harness/core/error.h"
#include "harness/core/expression.h"
#include "harness/core/variant_values.h"

namespace warptune {
namespace {

TEST(Space, LabelsArePartsOfConstraints) {
  const Variant variant{.name = "v",
                        .idea = "",
                        .parameters = {{.name = "load", .values = {0, 1}, .labels = {"ldg", "async"}},
                                       {.name = "n", .values = {1, 2}}},
                        .constraints = {"load == async || n == 1"}};
  const Problem problem{.op = "op", .dims = Assignment{{"tokens", 1}}};
  EXPECT_EQ(Space(variant, problem, known_device("sm_80")).configs().size(), 3u);
  const Override only[] = {{.parameter = "load", .values = {0}}};
  EXPECT_EQ(Space(variant, problem, known_device("sm_80"), only).configs().size(), 1u)
      << "async is still a name";
}

const Variant kVariant{.name = "tiled",
                       .parameters = {{"block", {64, 128}},
                                      {"vec", {1, 2, 4}},
                                      {"layout", {0, 1}, "order of the axes", {"rows", "columns"}}},
                       .constraints = {"hidden % vec == 0"}};
const Problem kProblem{.op = "op", .dims = {{"hidden", 6}}, .dtype = DType::bf16};

DeviceFacts facts() { return {.arch = "sm_90a", .sms = 132, .shared_per_block = 1000}; }

std::vector<std::string> texts(const Space& space) {
  std::vector<std::string> all;
  for (const Config& config : space.configs()) all.push_back(config.str());
  return all;
}

template <class F>
std::string error_of(F&& body) {
  try {
    body();
  } catch (const InputError& e) {
    return e.what();
  }
  return "no error";
}

TEST(Space, TheLastParameterVariesFastest) {
  const Space space(kVariant, kProblem, facts());
  EXPECT_EQ(space.size(), 12);
  EXPECT_EQ(space.at(0).str(), "block=64,vec=1,layout=rows");
  EXPECT_EQ(space.at(1).str(), "block=64,vec=1,layout=columns");
  EXPECT_EQ(space.at(2).str(), "block=64,vec=2,layout=rows");
  EXPECT_EQ(space.at(11).str(), "block=128,vec=4,layout=columns");
}

TEST(Space, ConstraintsOfVariantAndSweepHold) {
  const std::vector<Expression> more = {"block * vec <= 128", "layout == 1"};
  const Space space(kVariant, kProblem, facts(), {}, more);
  EXPECT_EQ(texts(space),
            (std::vector<std::string>{"block=64,vec=1,layout=columns", "block=64,vec=2,layout=columns",
                                      "block=128,vec=1,layout=columns"}));
  EXPECT_EQ(space.broken_constraint({{"block", 64}, {"vec", 4}, {"layout", 1}}), "hidden % vec == 0");
  EXPECT_EQ(space.broken_constraint({{"block", 128}, {"vec", 2}, {"layout", 0}}), "block * vec <= 128");
  EXPECT_EQ(space.broken_constraint({{"block", 64}, {"vec", 1}, {"layout", 1}}), std::nullopt);
}

/// The walk finds exactly the configurations that satisfy every constraint, in canonical order.
TEST(Space, AWalkFindsTheLegalConfigurations) {
  const Variant variant{.name = "walked",
                        .parameters = {{"a", {1, 2, 3, 5}}, {"b", {0, 1}}, {"c", {2, 4, 8}}, {"d", {1, 3}}},
                        .constraints = {"hidden == 6", "a % 2 == b", "c <= 4 || a > 2", "d * b < 3 || c == 8",
                                        "true", "b == 0 || d % b == 0"}};
  const Space space(variant, kProblem, facts());
  std::vector<std::string> one_by_one;
  for (std::int64_t i = 0; i < space.size(); ++i)
    if (const Config config = space.at(i); !space.broken_constraint(config))
      one_by_one.push_back(config.str());
  EXPECT_FALSE(one_by_one.empty());
  EXPECT_EQ(texts(space), one_by_one);
  const std::vector<Expression> never = {"hidden == 7"};
  EXPECT_TRUE(Space(variant, kProblem, facts(), {}, never).configs().empty());
}

TEST(Space, ExcludedBranchesArePruned) {
  Variant variant{.name = "large", .constraints = {"a + b + c == 0"}};
  for (const char* name : {"a", "b", "c", "d", "e", "f", "g", "h"})
    variant.parameters.push_back({name, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}});
  const Space space(variant, kProblem, facts());
  EXPECT_EQ(space.size(), 100'000'000);
  EXPECT_EQ(space.configs().size(), 100'000u);
  variant.constraints.clear();
  EXPECT_EQ(error_of([&] { Space(variant, kProblem, facts()).configs(); }),
            "at most 10000000 configurations are possible, and 100000000 steps to find them");
}

TEST(Space, OfAnotherProblemHasItsDims) {
  const std::vector<Expression> more = {"hidden > 4 || vec == 1"};
  const Space first(kVariant, kProblem, facts(), {}, more);
  for (const std::int64_t hidden : {4, 8, 6}) {
    Problem problem = kProblem;
    problem.dims.set("hidden", hidden);
    EXPECT_EQ(texts(first.of(problem)), texts(Space(kVariant, problem, facts(), {}, more))) << hidden;
  }
  Problem wider = kProblem;
  wider.dims.set("tokens", 5);
  wider.dims.set("hidden", 4);
  EXPECT_EQ(texts(first.of(wider)), texts(Space(kVariant, wider, facts(), {}, more)));
  EXPECT_EQ(texts(first), texts(Space(kVariant, kProblem, facts(), {}, more))) << "it stays as it was";
}

TEST(Space, AConstraintWithoutAFiniteValueIsAnError) {
  const std::string why = "it divides by zero, or a result in it is not finite";
  const auto sentence = [](const std::string& constraint) {
    const std::vector<Expression> constraints = {constraint};
    return error_of([&] { Space(kVariant, kProblem, facts(), {}, constraints).configs(); });
  };
  EXPECT_EQ(sentence("1 / 0"), "constraint '1 / 0' is not a number: " + why);
  EXPECT_EQ(sentence("1 / 0 > 1"), "constraint '1 / 0 > 1' is not a number: " + why);
  EXPECT_EQ(sentence("sqrt(-1) < 1"), "constraint 'sqrt(-1) < 1' is not a number: " + why);
  EXPECT_EQ(sentence("hidden / (vec - 2)"),
            "constraint 'hidden / (vec - 2)' is not a number for vec=2: " + why);
  EXPECT_EQ(sentence("hidden % (vec - 2) == 0"),
            "constraint 'hidden % (vec - 2) == 0' is not a number for vec=2: " + why);
  EXPECT_EQ(sentence("vec == 2 || hidden / (vec - 2) > 1"), "no error") << "the division is left out";
  EXPECT_EQ(sentence("vec != 2 && hidden % (vec - 2) == 0"), "no error");
  const Variant built_in{.name = "wrong", .parameters = {{"vec", {1, 2}}}, .constraints = {"1 / (vec - 1)"}};
  EXPECT_EQ(error_of([&] { Space(built_in, kProblem, facts()).configs(); }),
            "constraint '1 / (vec - 1)' is not a number for vec=1: " + why);
  EXPECT_THROW(Space(built_in, kProblem, facts()).broken_constraint({{"vec", 1}}), NotANumber);
  EXPECT_EQ(Space(built_in, kProblem, facts()).broken_constraint({{"vec", 2}}), std::nullopt);
}

/// A walk never comes to the second parameter where the first is excluded.
TEST(Space, AConstraintOnFewerParametersComesFirst) {
  const Variant variant{.name = "guarded",
                        .parameters = {{"a", {0, 1}}, {"b", {1, 2}}},
                        .constraints = {"8 % (a * b) == 0", "a != 0"}};
  const Space space(variant, kProblem, facts());
  EXPECT_EQ(texts(space), (std::vector<std::string>{"a=1,b=1", "a=1,b=2"}));
  EXPECT_EQ(space.broken_constraint({{"a", 0}, {"b", 1}}), "a != 0");
}

TEST(Space, ConstraintsUseDeviceFacts) {
  const std::vector<Expression> device = {
      "sms == 132 && arch == 90 && shared_per_block == 1000 && dtype_bytes == 2 && mantissa_bits == 7 && "
      "hidden == 6"};
  EXPECT_EQ(Space(kVariant, kProblem, facts(), {}, device).configs().size(), 8u);
}

TEST(Space, ConstraintsUseDeviceFeatures) {
  const auto count = [](const char* arch, std::string constraint) {
    const std::vector<Expression> constraints = {std::move(constraint)};
    return Space(kVariant, kProblem, {.arch = arch}, {}, constraints).configs().size();
  };
  EXPECT_EQ(count("sm_90a", "has_bulk_copy + has_wgmma + has_clusters + has_pdl + has_fp8_conversion == 5"),
            8u);
  EXPECT_EQ(count("sm_89", "has_bulk_copy + has_wgmma + has_clusters + has_pdl == 0 && has_fp8_conversion"),
            8u);
  for (const char* arch : {"sm_100a", "sm_103a", "sm_120a", "sm_121a"})
    EXPECT_EQ(
        count(arch, "has_bulk_copy + has_clusters + has_pdl + has_fp8_conversion == 4 && has_wgmma == 0"), 8u)
        << arch;
}

/// A derived value is computed where its parameters have values.
TEST(Space, ConstraintsUseDerivedValues) {
  Variant variant = kVariant;
  variant.derived = {{"elements", "block * vec"}, {"rows", "layout == columns ? elements / 64 : hidden"}};
  variant.constraints = {"elements <= 128", "rows <= 2"};
  variant.limits = {.shared_bytes = "8 * elements"};
  const Space space(variant, kProblem, facts());
  EXPECT_EQ(texts(space), (std::vector<std::string>{"block=64,vec=1,layout=columns"}))
      << "with vec=2 it needs 1024 bytes";
  EXPECT_EQ(space.why_excluded({{"block", 64}, {"vec", 2}, {"layout", 1}}),
            "block=64,vec=2,layout=1 needs 1024 bytes of shared memory, the device has 1000");
  const Config tall{{"block", 128}, {"vec", 1}, {"layout", 0}};
  EXPECT_EQ(space.broken_constraint(tall), "rows <= 2");
  EXPECT_EQ(space.why_illegal(tall), "breaks rows <= 2");
}

TEST(Space, AConfigurationMustFitTheSharedMemory) {
  Variant variant = kVariant;
  variant.limits = {.shared_bytes = "block * vec * hidden"};
  const Space space(variant, kProblem, facts());
  EXPECT_EQ(texts(space),
            (std::vector<std::string>{"block=64,vec=1,layout=rows", "block=64,vec=1,layout=columns",
                                      "block=64,vec=2,layout=rows", "block=64,vec=2,layout=columns",
                                      "block=128,vec=1,layout=rows", "block=128,vec=1,layout=columns"}));
  const Config large{{"block", 128}, {"vec", 2}, {"layout", 0}};
  EXPECT_EQ(space.broken_constraint(large), "needs 1536 bytes of shared memory, the device has 1000");
  EXPECT_EQ(space.why_illegal(large), space.broken_constraint(large));
  EXPECT_EQ(space.why_excluded(large),
            "block=128,vec=2,layout=0 needs 1536 bytes of shared memory, the device has 1000");
}

TEST(DeviceFacts, FlopsPerByteAreMeasuredOrTypical) {
  DeviceFacts facts = known_device("sm_90a");
  EXPECT_EQ(facts.flops_per_byte(), 200);
  facts.matrix_tflop_per_s = 900;
  facts.read_gb_per_s = 4500;
  EXPECT_EQ(facts.flops_per_byte(), 200);
  facts.read_gb_per_s = 9000;
  EXPECT_EQ(facts.flops_per_byte(), 100);
}

TEST(DeviceFacts, ADeviceWithoutAKernelFamilySaysSo) {
  EXPECT_EQ(known_device("sm_90a").family_note(), "");
  EXPECT_EQ(known_device("sm_80").family_note(), "");
  EXPECT_EQ(known_device("sm_100").family_note(),
            "Kernels were compiled for sm_100, and measured on sm_90a only: defaults are those of sm_90a and "
            "sm_80.");
}

TEST(Space, OverridesReplaceTheValues) {
  const std::vector<Override> overrides = {{"block", {96}}, {"layout", {1}}};
  EXPECT_EQ(texts(Space(kVariant, kProblem, facts(), overrides)),
            (std::vector<std::string>{"block=96,vec=1,layout=columns", "block=96,vec=2,layout=columns"}));
}

TEST(Space, AParameterForStepsHasItsFirstValueUnlessItIsGivenOthers) {
  Variant variant;
  variant.parameters = {{"block", {64, 128}}, {.name = "prefetch", .values = {0, 8}, .in_step_only = true}};
  EXPECT_EQ(texts(Space(variant, kProblem, facts())),
            (std::vector<std::string>{"block=64,prefetch=0", "block=128,prefetch=0"}));
  const std::vector<Override> given = {{"prefetch", {0, 8}}};
  EXPECT_EQ(Space(variant, kProblem, facts(), given).configs().size(), 4u);
}

TEST(Space, AVariantWithoutParametersHasOneConfiguration) {
  const Space space(Variant{.name = "plain"}, kProblem, facts());
  EXPECT_EQ(space.size(), 1);
  EXPECT_EQ(space.at(0).str(), "");
}

TEST(Space, WrongOverridesAndConstraints) {
  const std::vector<Override> unknown = {{"blok", {1}}};
  EXPECT_EQ(error_of([&] { Space(kVariant, kProblem, facts(), unknown); }),
            "variant 'op/tiled' has no parameter 'blok'; it has block, vec, layout");
  const std::vector<Expression> wrong = {"width > 1"};
  EXPECT_EQ(error_of([&] { Space(kVariant, kProblem, facts(), {}, wrong); }),
            "unknown name 'width' at position 1 of constraint 'width > 1'; it may use block, vec, layout, "
            "dtype_bytes, mantissa_bits, sms, arch, shared_per_block, has_bulk_copy, has_wgmma, "
            "has_clusters, has_pdl, "
            "has_fp8_conversion, hidden");
}

TEST(ParseConfig, TakesAnyOrderAndLabels) {
  const Config config = parse_config(kVariant, "layout=columns,vec=2,block=512");
  EXPECT_EQ(config.str(), "block=512,vec=2,layout=columns");
  EXPECT_EQ(config["layout"], 1);
  EXPECT_EQ(parse_config(kVariant, "block=1,vec=1,layout=0").str(), "block=1,vec=1,layout=rows");
  EXPECT_EQ(parse_config(Variant{.name = "plain"}, "").str(), "");
}

/// Variants share the labels of a choice, and each offers a subset of them.
TEST(ParseConfig, TakesOnlyLabelsThatTheVariantOffers) {
  const Variant variant{.name = "v",
                        .parameters = {{"combine", {1, 3}, "", {"kernel", "last_block", "cluster", "ll"}}}};
  EXPECT_EQ(parse_config(variant, "combine=ll")["combine"], 3);
  EXPECT_EQ(parse_config(variant, "combine=1").str(), "combine=last_block");
  for (const char* text : {"cluster", "2", "4"})
    EXPECT_EQ(error_of([&] { parse_config(variant, std::string("combine=") + text); }),
              std::string("parameter 'combine' of variant 'v' is '") + text +
                  "'; it must be one of last_block, ll");
}

TEST(Space, RegistersOfAllResidentThreadsFit) {
  const Variant variant{.name = "v",
                        .parameters = {{"threads", {256, 512, 1024}}},
                        .limits = {.registers = 128, .threads_per_sm = "threads"}};
  DeviceFacts device = facts();
  device.registers_per_sm = 65536;
  const Space space(variant, kProblem, device);
  EXPECT_EQ(space.configs().size(), 2u);
  EXPECT_EQ(space.broken_constraint({{"threads", 1024}}),
            "needs 128 registers for each of 1024 threads, an SM has 65536");
}

TEST(Space, LaunchesOfAllStagesFitAGrid) {
  Variant variant{.name = "v", .parameters = {{"tile", {1, 4}}, {"second", {0, 1}}}};
  variant.stages = {{"f.cu", "k", LaunchExpressions{.grid = {1, "ceil_div(hidden, tile)"}, .block = {256}}},
                    {"f.cu", "k2", LaunchExpressions{.block = {32, 64}}, "second == 1"}};
  const Problem many{.op = "op", .dims = {{"hidden", 65536}}, .dtype = DType::bf16};
  const Space space(variant, many, facts());
  EXPECT_EQ(texts(space), (std::vector<std::string>{"tile=4,second=0"}));
  EXPECT_EQ(space.why_excluded({{"tile", 1}, {"second", 0}}),
            "tile=1,second=0 has a grid of 65536 along y; 1 to 65535 are possible");
  EXPECT_EQ(space.broken_constraint({{"tile", 4}, {"second", 1}}),
            "needs 2048 threads per block; 1 to 1024 are possible");
}

/// A user's values can divide with a remainder where the declared ones do not.
TEST(Space, ALaunchThatIsNoIntegerExcludesAConfiguration) {
  Variant variant{.name = "v", .parameters = {{"tile", {4, 8}}, {"micro", {2, 3}}}};
  variant.stages.push_back({.file = "f.cu",
                            .kernel = "k",
                            .geometry = LaunchExpressions{
                                .grid = {1}, .block = {"32 * tile / micro"}, .shared_bytes = "tile / 4"}});
  const Problem problem{.op = "op", .dims = {{"hidden", 6}}, .dtype = DType::bf16};
  EXPECT_EQ(texts(Space(variant, problem, facts())),
            (std::vector<std::string>{"tile=4,micro=2", "tile=8,micro=2"}));
  const Override odd[] = {{.parameter = "tile", .values = {6, 12}}};
  const Space space(variant, problem, facts(), odd);
  EXPECT_EQ(texts(space), (std::vector<std::string>{"tile=12,micro=2", "tile=12,micro=3"}));
  EXPECT_EQ(space.why_excluded({{"tile", 6}, {"micro", 2}}),
            "tile=6,micro=2 has a launch where 'tile / 4' is 1.5, which is not an integer");
}

TEST(Launch, CountsThatDoNotFitAreTheLargest) {
  EXPECT_EQ(as_unsigned(7), 7u);
  EXPECT_EQ(as_unsigned((1ll << 32) + 5), 4294967295u);
}

// Winners that are older than a step-only parameter stay valid.
TEST(ParseConfig, AStepOnlyParameterMayBeOmitted) {
  Variant variant{.name = "v", .parameters = {{"block", {64}}}};
  variant.parameters.push_back({.name = "prefetch", .values = {4, 8}, .in_step_only = true});
  variant.workspace = "10 * prefetch";
  EXPECT_EQ(parse_config(variant, "block=64").str(), "block=64,prefetch=4");
  const Problem problem{.op = "op", .dims = {{"hidden", 6}}, .dtype = DType::bf16};
  const Config config = {{"block", 64}};
  EXPECT_EQ(Space(variant, problem, facts()).why_excluded(config), "");
  EXPECT_EQ(bytes_of(variant.workspace, variant, problem, config), 40);
}

// It would be that of a device without SMs.
TEST(VariantValues, AWorkspaceKnowsNoFactOfTheDevice) {
  Variant variant{.name = "v", .derived = {{"blocks", "2 * sms", ""}}};
  const Problem problem{.op = "op", .dims = {{"hidden", 6}}, .dtype = DType::bf16};
  const Config config;
  EXPECT_EQ(error_of([&] { bytes_of("hidden * blocks", variant, problem, config); }),
            "'sms' is a fact of the device, which workspaces, conditions and kernel names do not know");
  EXPECT_FALSE(VariantValues(variant, problem, config).knows("blocks"));
  EXPECT_TRUE(VariantValues(variant, problem, config).knows("hidden"));
  const DeviceFacts device = facts();
  EXPECT_EQ(VariantValues(variant, problem, config, &device).integer("blocks"), 2 * device.sms);
}

TEST(ParseConfig, ErrorsAreOneSentence) {
  const auto error = [](const char* text) { return error_of([&] { parse_config(kVariant, text); }); };
  EXPECT_EQ(error("block=1,vec=1"), "variant 'tiled' needs parameter 'layout'");
  EXPECT_EQ(error("blok=1"), "variant 'tiled' has no parameter 'blok'; it has block, vec, layout");
  EXPECT_EQ(error("block=1.5,vec=1,layout=0"),
            "parameter 'block' of variant 'tiled' is '1.5'; it must be an integer");
  EXPECT_EQ(error("block=1,vec=1,layout=diagonal"),
            "parameter 'layout' of variant 'tiled' is 'diagonal'; it must be one of rows, "
            "columns");
  EXPECT_EQ(error("block"), "'block' is not of the form name=value");
  EXPECT_EQ(error_of([] { parse_config(Variant{.name = "plain"}, "a=1"); }),
            "variant 'plain' has no parameter 'a'; it has none");
}

TEST(OpEntry, AnUnknownVariantListsTheKnownOnes) {
  const OpEntry entry{.op = {.name = "op"}, .variants = {{.name = "naive"}, {.name = "tiled"}}};
  EXPECT_EQ(&entry.variant("tiled"), &entry.variants[1]);
  EXPECT_EQ(error_of([&] { entry.variant("fast"); }), "op 'op' has no variant 'fast'; it has naive, tiled");
}

}  // namespace
}  // namespace warptune
