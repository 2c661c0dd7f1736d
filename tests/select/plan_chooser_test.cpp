#include "harness/select/plan_chooser.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "harness/core/space.h"
#include "tests/attention_times.h"

namespace warptune {
namespace {
using testing::decode_problem;
using testing::h200;
using testing::in_waves;
using testing::pipelined;
using testing::timed;

/// Around batch 16 and context 2048. One split is always the fastest.
Wisdom neighbors() {
  Wisdom wisdom;
  for (const std::int64_t context : {1024, 4096})
    for (const std::int64_t batch : {12, 14, 16})
      wisdom.put(timed(decode_problem(batch, context), {pipelined(1), pipelined(2)}, in_waves));
  return wisdom;
}

class Chosen : public ::testing::Test {
 protected:
  PlanChoice first(const Wisdom& wisdom) { return first(wisdom, problem_); }
  PlanChoice first(const Wisdom& wisdom, const Problem& problem, std::vector<PlanOverride> overrides = {}) {
    PlanChooser chooser(ops(), h200(),
                        {.wisdom = wisdom,
                         .has_wisdom = true,
                         .overrides = std::move(overrides),
                         .tell = [this](const std::string& note) { notes_ += note + "\n"; }});
    expected_us_ = chooser.expected_us(problem);
    PlanChoice choice;
    EXPECT_TRUE(
        chooser.choose(problem, false, [&](const PlanChoice& offered) { return choice = offered, true; }));
    return choice;
  }
  const Problem problem_ = decode_problem(16, 2048);
  std::string notes_;
  std::optional<double> expected_us_;
};

TEST_F(Chosen, AnOverrideBeforeAll) {
  const PlanChoice choice =
      first(neighbors(), problem_, {parse_plan_override(ops(), "attention_decode=split_kv")});
  EXPECT_EQ(choice.source, PlanSource::overridden);
  EXPECT_EQ(choice.variant->name, "split_kv");
  EXPECT_EQ(notes_, "");
}

TEST_F(Chosen, TheWinnerOfTheProblemBeforeTheNearest) {
  Wisdom wisdom = neighbors();
  wisdom.put(timed(problem_, {pipelined(4)}, [](const Problem&, const Config&) { return 77; }));
  const PlanChoice choice = first(wisdom);
  EXPECT_EQ(choice.source, PlanSource::exact);
  EXPECT_EQ(choice.config, pipelined(4));
  EXPECT_EQ(expected_us_, 77);
  EXPECT_EQ(notes_, "");
}

/// A wisdom with a winner of the problem, and with a step that takes another configuration.
Wisdom with_step(const Problem& step, const Problem& problem) {
  Wisdom wisdom;
  const Winner winner = timed(problem, {pipelined(4), pipelined(2), pipelined(1)}, in_waves);
  wisdom.put(winner);
  StepWinner tuned{.step = step, .time_us = 9, .alone_us = 10, .made_on = winner.made_on};
  tuned.plans.options.set("fuse_append", 1, "yes");
  tuned.plans.plans = {{problem, winner.variant, pipelined(8), winner.source_hash}};
  wisdom.put(tuned);
  return wisdom;
}

TEST_F(Chosen, ThePlanOfTheStepBeforeTheWinner) {
  const Problem step{kStepOp, {{"batch", 16}}, DType::bf16}, other{kStepOp, {{"batch", 8}}, DType::bf16};
  const auto config_in = [&](const PlanOptions& options, const Problem& entered) {
    PlanChooser chooser(ops(), h200(), options);
    chooser.enter_step(entered);
    Config config;
    chooser.choose(problem_, false, [&](const PlanChoice& offered) { return config = offered.config, true; });
    EXPECT_EQ(chooser.step() != nullptr, config == pipelined(8));
    chooser.leave_step();
    EXPECT_EQ(chooser.step(), nullptr);
    chooser.choose(problem_, false, [&](const PlanChoice& offered) {
      EXPECT_FALSE(offered.config == pipelined(8)) << "outside of the step";
      return true;
    });
    return config;
  };
  const auto note = [this](const std::string& text) { notes_ += text + "\n"; };
  PlanOptions options{.wisdom = with_step(step, problem_), .has_wisdom = true, .tell = note};
  EXPECT_EQ(config_in(options, step), pipelined(8));
  EXPECT_FALSE(config_in(options, other) == pipelined(8));
  EXPECT_EQ(notes_, "");

  StepWinner edited = options.wisdom.steps().front();
  edited.plans.plans[0].source_hash = "edited since";
  options.wisdom.put(edited);
  EXPECT_FALSE(config_in(options, step) == pipelined(8));
  EXPECT_EQ(notes_, step.key() + ": the plans that were tuned in the step are not used: " + problem_.key() +
                        ": tuned on other code of its kernels\n");
  options.stale = StaleCode::use;
  EXPECT_EQ(config_in(options, step), pipelined(8));
  options.naive = true;
  EXPECT_FALSE(config_in(options, step) == pipelined(8));
}

TEST_F(Chosen, ThePlanOfAStepWithANearContext) {
  const auto step = [](std::int64_t batch, std::int64_t context) {
    return Problem{kStepOp, {{"batch", batch}, {"context", context}}, DType::bf16};
  };
  Wisdom wisdom = with_step(step(16, 512), problem_);
  StepWinner farther = wisdom.steps().front();
  farther.step = step(16, 8192);
  farther.plans.plans[0].config = pipelined(1);
  wisdom.put(farther);
  PlanChooser chooser(ops(), h200(), {.wisdom = wisdom, .has_wisdom = true});
  const auto entered = [&](std::int64_t batch, std::int64_t context) {
    chooser.enter_step(step(batch, context));
    PlanChoice choice;
    chooser.choose(problem_, false, [&](const PlanChoice& offered) { return choice = offered, true; });
    EXPECT_EQ(chooser.is_near_step(), choice.source == PlanSource::near_step);
    return std::pair(choice.source, choice.config);
  };
  EXPECT_EQ(entered(16, 512), std::pair(PlanSource::step, pipelined(8)));
  EXPECT_EQ(entered(16, 1024), std::pair(PlanSource::near_step, pipelined(8)));
  EXPECT_EQ(entered(16, 64), std::pair(PlanSource::near_step, pipelined(8)));
  EXPECT_EQ(entered(16, 4096), std::pair(PlanSource::near_step, pipelined(1))) << "a factor of 2, not of 8";
  EXPECT_EQ(entered(16, 32).first, PlanSource::exact) << "a factor of 16";
  EXPECT_EQ(entered(8, 512).first, PlanSource::exact) << "another batch";
}

TEST_F(Chosen, TheFastestRecordedConfigurationsBeginWithTheWinner) {
  Wisdom wisdom;
  Winner winner = timed(
      problem_, {pipelined(1), pipelined(2), pipelined(4)},
      [](const Problem&, const Config& c) { return 100 * std::abs(static_cast<double>(c["splits"]) - 2.1); });
  winner.config = pipelined(4);  // a finalist that won later
  winner.tied = {{winner.variant, pipelined(8), 9}, {"no_such_variant", {}, 9}};
  wisdom.put(winner);
  const PlanChooser chooser(ops(), h200(), {.wisdom = wisdom, .has_wisdom = true});
  const auto splits = [&](const Problem& problem, std::size_t count) {
    std::vector<std::int64_t> values;
    for (const auto& [variant, config] : chooser.fastest(problem, count)) values.push_back(config["splits"]);
    return values;
  };
  EXPECT_EQ(splits(problem_, 8), (std::vector<std::int64_t>{4, 8, 2, 1}));
  EXPECT_EQ(splits(problem_, 2), (std::vector<std::int64_t>{4, 8}));
  EXPECT_EQ(splits(decode_problem(16, 1024), 1), (std::vector<std::int64_t>{4})) << "of the nearest problem";
  EXPECT_TRUE(splits(decode_problem(16, 2048, 8, 8), 8).empty());
}

TEST_F(Chosen, AWinnerOfAnUnknownVariantSaysSo) {
  Winner winner = timed(problem_, {pipelined(4)}, in_waves);
  winner.variant = "no_such_variant";
  Wisdom wisdom;
  wisdom.put(winner);
  EXPECT_EQ(first(wisdom).source, PlanSource::fallback);
  EXPECT_NE(notes_.find("there is no variant 'no_such_variant' (--kernels FILE brings"), std::string::npos)
      << notes_;
}

TEST_F(Chosen, TheNearestWinnerIsNamed) {
  const PlanChoice choice = first(neighbors());
  EXPECT_EQ(choice.source, PlanSource::nearest);
  EXPECT_EQ(choice.config, pipelined(1));
  const Problem near = decode_problem(16, 1024);
  EXPECT_EQ(expected_us_, in_waves(near, pipelined(1)));
  EXPECT_EQ(choice.reason, "takes the winner of the nearest tuned problem, " + near.key());
  EXPECT_EQ(notes_, problem_.key() + ": " + choice.reason + "\n");
}

TEST_F(Chosen, AnEmptyConfigurationIsNotNamed) {
  EXPECT_EQ(quoted("host_naive", {}), "'host_naive'");
  EXPECT_EQ(quoted("tiled", Config{{"block", 256}}), "'tiled' with block=256");
}

TEST_F(Chosen, TheNearestWinnerBeforeADefault) {
  EXPECT_EQ(first(neighbors()).source, PlanSource::nearest);
  EXPECT_EQ(first(neighbors(), decode_problem(16, 65536)).source, PlanSource::fallback);
}

TEST_F(Chosen, TheNearestWhereTheWinnerIsRefused) {
  Wisdom wisdom = neighbors();
  Winner stale = timed(problem_, {pipelined(4)}, in_waves);
  stale.source_hash = "edited since";
  wisdom.put(stale);
  const PlanChoice choice = first(wisdom);
  EXPECT_EQ(choice.source, PlanSource::nearest);
  EXPECT_EQ(choice.why_not, "the wisdom is not used: tuned on other code of its kernels");
  EXPECT_NE(notes_.find(choice.why_not), std::string::npos) << notes_;
}

TEST_F(Chosen, TheReasonIsThatOfTheProblemsOwnWinner) {
  Winner stale = timed(problem_, {pipelined(4)}, in_waves),
         unknown = timed(decode_problem(16, 1024), {pipelined(1)}, in_waves);
  stale.source_hash = "edited since";
  unknown.variant = "no_such_variant";
  Wisdom wisdom;
  wisdom.put(stale);
  wisdom.put(unknown);
  const PlanChoice choice = first(wisdom);
  EXPECT_EQ(choice.source, PlanSource::fallback);
  EXPECT_NE(notes_.find("no_such_variant"), std::string::npos) << notes_;
  EXPECT_EQ(choice.why_not, "the wisdom is not used: tuned on other code of its kernels");
}

using Likely = std::vector<std::pair<const Variant*, Config>>;

Likely likely(const Wisdom& wisdom, const Problem& problem) {
  return PlanChooser(ops(), h200(), {.wisdom = wisdom, .has_wisdom = true}).likely(problem);
}

TEST(LikelyConfigs, AreTheDefaultThenTheFastestOfTheNearestProblems) {
  const Problem problem = decode_problem(16, 2048);
  const Likely defaults = likely({}, problem);
  ASSERT_FALSE(defaults.empty());
  Wisdom wisdom;
  // The nearer problem has other configurations, and one of them in common.
  wisdom.put(timed(decode_problem(16, 4096), {pipelined(2), pipelined(4)}, in_waves));
  wisdom.put(timed(decode_problem(16, 512), {pipelined(1), pipelined(4), pipelined(8)}, in_waves));
  const Winner &near = wisdom.winners()[0], &far = wisdom.winners()[1];
  const Likely chosen = likely(wisdom, problem);
  ASSERT_GE(chosen.size(), 5u);
  EXPECT_EQ(chosen[0], defaults[0]);
  EXPECT_EQ(chosen[1].second, near.config);
  EXPECT_EQ(chosen[2].second, far.config);
  const auto configs = [&](const Config& config) {
    return std::ranges::count(chosen, config, &Likely::value_type::second);
  };
  for (const int splits : {1, 2, 4, 8}) EXPECT_EQ(configs(pipelined(splits)), 1) << splits;
}

// A size of 0 stands for none: it is as far from any other as a label is from another.
TEST(LikelyConfigs, ASizeOfNoneIsAsFarAsAnotherLabel) {
  const auto windowed = [](std::int64_t context, std::int64_t window) {
    Problem problem = decode_problem(16, context);
    problem.dims.set("window", window);
    return problem;
  };
  for (const auto& [given, other] : {std::pair{0, 1024}, {1024, 0}}) {
    Wisdom wisdom;
    wisdom.put(timed(windowed(2048 * 8, given), {pipelined(8)}, in_waves));
    wisdom.put(timed(windowed(2048, other), {pipelined(2)}, in_waves));
    const Likely chosen = likely(wisdom, windowed(2048, given));
    ASSERT_GE(chosen.size(), 3u);
    EXPECT_EQ(chosen[1].second, pipelined(2)) << given;
    EXPECT_EQ(chosen[2].second, pipelined(8)) << given;
  }
}

TEST(LikelyConfigs, AreFewAndLegal) {
  Wisdom wisdom;
  for (const std::int64_t context : {256, 512, 1024, 4096, 8192})
    wisdom.put(timed(decode_problem(16, context),
                     {pipelined(1), pipelined(2), pipelined(4), pipelined(8), pipelined(1, 4),
                      pipelined(2, 4), pipelined(4, 4), pipelined(8, 4), pipelined(16), pipelined(16, 4)},
                     in_waves));
  const Problem problem = decode_problem(16, 2048);
  const Likely chosen = likely(wisdom, problem);
  EXPECT_EQ(chosen.size(), 8u) << "all are compiled";
  for (const auto& [variant, config] : chosen)
    EXPECT_EQ(why_unfit(*variant, problem, config, h200()), std::nullopt) << config.str();
}

TEST_F(Chosen, AMeasuredTimeBeforeThatOfTheNearest) {
  const auto prefers = [&](std::optional<double> fused, std::vector<std::optional<double>> parts) {
    Wisdom wisdom = neighbors();  // about 70 us for batches near 16
    const auto problem = [&](std::int64_t batch, std::optional<double> us) {
      const Problem p = decode_problem(batch, 2048);
      if (us) wisdom.put(timed(p, {pipelined(1)}, [&](const Problem&, const Config&) { return *us; }));
      return p;
    };
    const Problem all = problem(16, fused);
    std::vector<Problem> of_parts;
    for (const auto& us : parts) of_parts.push_back(problem(12 + std::ssize(of_parts), us));
    return PlanChooser(ops(), h200(), {.wisdom = wisdom, .has_wisdom = true})
        .prefers(std::array{all}, of_parts);
  };
  EXPECT_TRUE(prefers(100, {60, 60}));
  EXPECT_FALSE(prefers(130, {60, 60}));
  EXPECT_TRUE(prefers(1e6, {60, {}}));
  EXPECT_FALSE(prefers({}, {1e6, 1e6}));
  EXPECT_TRUE(prefers({}, {{}, {}}));  // one against two
}

/// Ignores changed sources of kernels: only a new sweep can update those winners.
TEST(RecordedWisdom, HasTheFastFamiliesForTheModels) {
  const auto path = std::filesystem::path(SOURCE_ROOT) / "results" / "h200" / "wisdom.json";
  const Wisdom wisdom = Wisdom::load(path);
  DeviceFacts facts = h200();
  facts.name = wisdom.provenance().device;
  PlanChooser chooser(ops(), facts, {.wisdom = wisdom, .has_wisdom = true, .stale = StaleCode::use});
  const auto chosen = [&](const std::string& op, const Assignment& dims) {
    const Problem problem = find_op(op).op.problem(dims, DType::bf16);
    PlanChoice choice;
    EXPECT_TRUE(chooser.choose(problem, true, [&](const PlanChoice& first) { return choice = first, true; }));
    EXPECT_LE(choice.source, PlanSource::nearest) << problem.key();
    return choice.variant->name;
  };
  for (const std::int64_t kv_heads : {32, 8}) {  // LLaMA 2 7B, LLaMA 3 8B
    for (const std::int64_t tokens : {512, 2048})
      EXPECT_TRUE(chosen("attention_prefill", {{"batch", 1},
                                               {"q_len", tokens},
                                               {"kv_len", tokens},
                                               {"q_heads", 32},
                                               {"kv_heads", kv_heads},
                                               {"head_dim", 128}})
                      .starts_with("flash_"))
          << tokens;
    for (const std::int64_t context : {256, 300, 512, 1024, 2000, 4096, 8192}) {
      const std::string variant = chosen(
          "attention_decode",
          {{"batch", 1}, {"q_heads", 32}, {"kv_heads", kv_heads}, {"head_dim", 128}, {"context", context}});
      EXPECT_TRUE(variant.ends_with("pipelined") || variant == "mma_direct") << context << ' ' << variant;
    }
  }
}

TEST_F(Chosen, TimesOfOtherSourcesOrDevicesAreIgnored) {
  const auto changed = [](const std::function<void(Winner&)>& change) {
    const Wisdom before = neighbors();
    Wisdom wisdom;
    for (Winner winner : before.winners()) {
      change(winner);
      wisdom.put(winner);
    }
    return wisdom;
  };
  const std::size_t defaults = likely({}, problem_).size();
  const auto added = [&](const std::function<void(Winner&)>& change) {
    return likely(changed(change), problem_).size() - defaults;
  };
  EXPECT_GT(added([](Winner&) {}), 0u);
  EXPECT_EQ(added([](Winner& w) { w.source_hash = w.times[0].source_hash = "edited since"; }), 0u);
  EXPECT_EQ(added([](Winner& w) { w.cache = CacheMode::hot; }), 0u);
  EXPECT_EQ(added([](Winner& w) { w.made_on.arch = "sm_80"; }), 0u);
  EXPECT_EQ(first(changed([](Winner& w) { w.made_on.arch = "sm_80"; })).source, PlanSource::fallback);
}

class Default : public ::testing::Test {
 protected:
  /// The choice without wisdom if the first `refused` offers are refused.
  PlanChoice on(std::string_view arch, const Problem& problem, PlanOptions options = {},
                std::size_t refused = 0) {
    const DeviceFacts facts = known_device(arch);
    options.tell = [this](const std::string& note) { notes_ += note + "\n"; };
    PlanChooser chooser(ops(), facts, std::move(options));
    PlanChoice choice;
    EXPECT_TRUE(chooser.choose(problem, false,
                               [&](const PlanChoice& offered) { return choice = offered, refused-- == 0; }));
    return choice;
  }
  static Problem prefill(std::int64_t head_dim, std::int64_t page_size = 0) {
    return find_op("attention_prefill")
        .op.problem(Assignment{{"batch", 1},
                               {"q_len", 2048},
                               {"kv_len", 2048},
                               {"q_heads", 32},
                               {"kv_heads", 32},
                               {"head_dim", head_dim},
                               {"page_size", page_size}},
                    DType::bf16);
  }
  std::string notes_;
};

TEST_F(Default, IsARowOfTheTileTableWithItsOrigin) {
  const PlanChoice choice = on("sm_80", prefill(128));
  EXPECT_EQ(choice.source, PlanSource::fallback);
  EXPECT_EQ(choice.variant->name, "flash_mma");
  EXPECT_EQ(choice.config["tile_m"], 128);
  EXPECT_EQ(choice.config["tile_n"], 32);
  EXPECT_EQ(choice.config["warps"], 4);
  EXPECT_EQ(notes_, prefill(128).key() + ": takes the default 'flash_mma' with " + choice.config.str() +
                        " (FlashAttention-2's 128 x 32 of head_dim 128 with dropout, 4 warps; its 128 x 64 "
                        "spills here; not measured)\n");
}

TEST_F(Default, IsTheNextRowWhereOneIsIllegalOrNotTaken) {
  EXPECT_EQ(on("sm_80", prefill(128, 16)).config["tile_m"], 64);
  EXPECT_EQ(on("sm_80", prefill(128), {}, 1).config["tile_m"], 64);
}

TEST_F(Default, OfAGroupOfHeadsIsOnTensorCores) {
  EXPECT_EQ(on("sm_80", decode_problem(16, 2048)).variant->name, "mma_direct");
  EXPECT_EQ(on("sm_90a", decode_problem(16, 2048)).variant->name, "mma_pipelined");
  EXPECT_NE(notes_.find("measured on NVIDIA H200"), std::string::npos) << notes_;
}

TEST_F(Default, OfAnOverrideWithoutConfigurationIsATileToo) {
  const PlanChoice choice =
      on("sm_90a", prefill(256), {.overrides = {parse_plan_override(ops(), "attention_prefill=flash_mma")}});
  EXPECT_EQ(choice.source, PlanSource::overridden);
  EXPECT_EQ(choice.config["warps"], 8);
  EXPECT_EQ(notes_, "");
}

/// A library runs code of the real GPU.
TEST_F(Default, IsNoLibraryInARehearsal) {
  const Problem linear =
      find_op("linear").op.problem(Assignment{{"tokens", 16}, {"in", 4096}, {"out", 4096}}, DType::bf16);
  if (find_op("linear").find_variant("cublaslt")) {
    EXPECT_EQ(on("sm_80", linear).variant->name, "cublaslt");
  }
  EXPECT_FALSE(calls_library(*on("sm_90a-as-sm_80", linear).variant));
  EXPECT_EQ(on("sm_90a-as-sm_80", linear, {.overrides = {parse_plan_override(ops(), "linear=mma")}}).source,
            PlanSource::overridden);
  for (std::size_t refused = 0; refused < 8; ++refused)
    EXPECT_FALSE(calls_library(*on("sm_90a-as-sm_80", prefill(128), {}, refused).variant)) << refused;
}

/// A winner that both may run, and a step of it, made on one of them.
Wisdom rms_norm_wisdom(const DeviceFacts& made_on) {
  const Problem problem =
      find_op("rms_norm").op.problem(Assignment{{"tokens", 1}, {"hidden", 4096}}, DType::bf16);
  Winner winner{.problem = problem,
                .variant = "naive",
                .config = {{"block", 256}},
                .time_us = 2,
                .made_on = {made_on.name, made_on.arch, made_on.driver, made_on.toolkit, ""}};
  winner.source_hash = source_hash(Compiler(KernelSources(), {}), ops(), winner);
  winner.times = {{"naive", winner.source_hash, {"block"}, {{{512}, 3}}}};
  StepWinner step{.step = {kStepOp, {{"batch", 1}}, DType::bf16}, .time_us = 9, .made_on = winner.made_on};
  step.plans.plans = {{problem, winner.variant, winner.config, winner.source_hash}};
  Wisdom wisdom(winner.made_on);
  wisdom.put(winner);
  wisdom.put(step);
  return wisdom;
}

TEST(Rehearsal, NeitherItNorTheDeviceUsesTheWinnersOfTheOther) {
  const DeviceFacts real = known_device("sm_90a"), rehearsal = facts_as(real, "sm_80"),
                    older = known_device("sm_80");
  for (const DeviceFacts* here : {&real, &rehearsal, &older})
    for (const DeviceFacts* made_on : {&real, &rehearsal, &older}) {
      SCOPED_TRACE("made on " + made_on->name + ", used on " + here->name);
      const bool same = here == made_on;
      const Wisdom wisdom = rms_norm_wisdom(*made_on);
      const Problem problem = wisdom.winners()[0].problem;
      Problem near = problem;
      near.dims.set("tokens", 2);
      PlanChooser chooser(ops(), *here, {.wisdom = wisdom, .has_wisdom = true});
      const auto source_of = [&](const Problem& p) {
        PlanSource source{};
        chooser.choose(p, false, [&](const PlanChoice& choice) { return source = choice.source, true; });
        return source;
      };
      EXPECT_EQ(source_of(problem), same ? PlanSource::exact : PlanSource::fallback);
      EXPECT_EQ(source_of(near), same ? PlanSource::nearest : PlanSource::fallback);
      EXPECT_EQ(chooser.is_tuned(problem), same);
      EXPECT_EQ(chooser.fastest(problem, 4).size(), same ? 2u : 0u);
      chooser.enter_step(wisdom.steps()[0].step);
      EXPECT_EQ(chooser.step() != nullptr, same);
    }
}

/// No row is for paged prompts in fp32, and no library takes them.
TEST_F(Default, IsTheMiddleOfASpaceWithoutATile) {
  Problem paged = prefill(128, 16);
  paged.dtype = DType::fp32;
  const PlanChoice choice = on("sm_80", paged);
  EXPECT_EQ(choice.variant->name, "tiled");
  const auto configs = Space(*choice.variant, paged, known_device("sm_80")).configs();
  EXPECT_EQ(choice.config, configs.at(configs.size() / 2));
  EXPECT_EQ(on("sm_80", prefill(128), {.naive = true}).variant->name, "unfused");
  EXPECT_EQ(notes_, "");
}

}  // namespace
}  // namespace warptune
