// The table of plans: each problem that it covers has one plan, which launches as the variant would.
#include "harness/export/plan_table.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "harness/core/error.h"
#include "harness/export/export_files.h"
#include "kernels/rms_norm/args.h"
#include "variants/table.h"

namespace warptune {
namespace {

#if WARPTUNE_HAS_CUDA
/// An op with two dims of work, and variants of a real kernel whose launches `geometry` gives. `limited`
/// serves what its constraint allows, `naive` the rest.
OpEntry two_dim_op(const LaunchExpressions& geometry, const std::string& constraint) {
  OpEntry entry{.op = ops().find("rms_norm").op, .variants = {}};
  entry.op.name = "two_dim";
  entry.op.dims = {work_dim({"a", "rows"}),
                   work_dim({"b", "columns"}),
                   {"width", "row length"},
                   data_dim({.name = "sorted", .doc = "whether rows are in order", .fallback = 0, .min = 0})};
  entry.op.tensors = [](const Problem& p, std::uint64_t) {
    const std::vector<std::int64_t> shape = {p["a"], p["b"], p["width"]};
    return std::vector<TensorSpec>{
        {.name = "x", .dtype = p.dtype, .shape = shape, .values = {}},
        {.name = "weight", .dtype = p.dtype, .shape = {p["width"]}, .values = {}},
        {.name = "y", .dtype = p.dtype, .shape = shape, .role = Role::output, .values = {}}};
  };
  entry.op.bind = [](const Problem& p, std::span<void* const> t, void*) {
    return Args(RmsNormArgs{
        .x = t[0], .weight = t[1], .y = t[2], .tokens = static_cast<int>(p["a"] * p["b"]), .eps = 1e-5f});
  };
  entry.op.cost = [](const Problem& p) { return Cost{.bytes = static_cast<double>(p["a"] * p["b"])}; };
  Variant limited{.name = "limited", .idea = "what the constraint allows"};
  limited.parameters = {{"block", {64}}};
  limited.stages = {{.file = "rms_norm/naive.cu",
                     .kernel = "rms_norm_naive<{dtype}, {width}, {block}>",
                     .geometry = geometry}};
  Variant naive = limited;
  naive.name = "naive";
  limited.constraints = {constraint};
  entry.preferences = {{"limited"}, {"naive"}};
  entry.variants = {std::move(limited), std::move(naive)};
  return entry;
}

const LaunchExpressions kGridOfWork{.grid = {"2 * a", "b"}, .block = {"block"}, .pdl = 1, .cluster = 2};

Problem problem_of(const OpTable& table, std::int64_t a, std::int64_t b) {
  return table.find("two_dim").op.problem(Assignment{{"a", a}, {"b", b}, {"width", 64}}, DType::bf16);
}

class TwoDims : public ::testing::Test {
 protected:
  PlanTable table_of(const std::vector<std::pair<std::int64_t, std::int64_t>>& problems,
                     const std::vector<Cover>& covers) const {
    ExportChooser chooser(table_, facts_, compiler_, {});
    std::vector<Problem> list;
    for (const auto& [a, b] : problems) list.push_back(problem_of(table_, a, b));
    return make_plan_table(chooser, list, covers);
  }
  static std::vector<const ExportedPlan*> plans_of(const PlanTable& table, std::int64_t a, std::int64_t b) {
    std::vector<const ExportedPlan*> found;
    for (const ExportedPlan& plan : table.plans)
      if (plan.box[0].from <= a && a <= plan.box[0].to && plan.box[1].from <= b && b <= plan.box[1].to)
        found.push_back(&plan);
    return found;
  }

  const OpTable table_{[] {
    std::vector<OpEntry> entries;
    entries.push_back(two_dim_op(kGridOfWork, "a * b >= 12"));
    return entries;
  }()};
  const DeviceFacts facts_ = known_device("sm_90a");
  const Compiler compiler_{KernelSources(), default_cache_folder()};
};

TEST_F(TwoDims, CoveredCellsAreDisjointAndLeaveNothingOut) {
  const PlanTable table =
      table_of({{3, 5}, {8, 2}}, {{.dim = "a", .from = 1, .to = 13}, {.dim = "b", .from = 1, .to = 9}});
  EXPECT_TRUE(table.left_out.empty());
  for (std::int64_t a = 1; a <= 13; ++a)
    for (std::int64_t b = 1; b <= 9; ++b) {
      const auto plans = plans_of(table, a, b);
      ASSERT_EQ(plans.size(), 1u) << a << " x " << b;
      EXPECT_TRUE(plans[0]->choice.variant->name == "naive" || a * b >= 12) << a << " x " << b;
      const auto value = [&, a = a, b = b](const std::string& dim) { return dim == "a" ? a : b; };
      EXPECT_EQ(plans[0]->launch.stages[0].grid.x.evaluate(value), 2 * a);
      EXPECT_EQ(plans[0]->launch.stages[0].grid.y.evaluate(value), b);
    }
  EXPECT_TRUE(plans_of(table, 14, 1).empty());
  EXPECT_TRUE(plans_of(table, 1, 10).empty());
}

TEST_F(TwoDims, CellsOfGivenProblemsEndAtTheNextSmallerOne) {
  const PlanTable table = table_of({{4, 8}, {8, 8}, {8, 4}, {16, 16}}, {});
  ASSERT_EQ(table.plans.size(), 4u);
  for (std::int64_t a = 1; a <= 16; ++a)
    for (std::int64_t b = 1; b <= 16; ++b) EXPECT_LE(plans_of(table, a, b).size(), 1u) << a << " x " << b;
  const auto box_of = [&](std::int64_t a, std::int64_t b) {
    const auto plans = plans_of(table, a, b);
    return plans.size() == 1 ? plans[0]->box : DimBox{};
  };
  EXPECT_EQ(box_of(16, 16), (DimBox{{"a", 9, 16}, {"b", 9, 16}}));
  EXPECT_EQ(box_of(8, 8), (DimBox{{"a", 5, 8}, {"b", 5, 8}}));
  EXPECT_EQ(box_of(4, 8), (DimBox{{"a", 2, 4}, {"b", 6, 8}})) << "2 x 5 breaks the constraint";
  EXPECT_EQ(box_of(8, 4), (DimBox{{"a", 5, 8}, {"b", 3, 4}}));
}

TEST_F(TwoDims, AProblemThatIsGivenTwiceHasOnePlan) {
  EXPECT_EQ(table_of({{4, 8}, {4, 8}}, {}).plans.size(), 1u);
}

TEST_F(TwoDims, ProblemsThatDifferInTheirDataHaveOnePlan) {
  ExportChooser chooser(table_, facts_, compiler_, {});
  const Problem plain = problem_of(table_, 4, 8);
  Problem sorted = plain;
  sorted.dims.set("sorted", 1);
  const PlanTable table = make_plan_table(chooser, {sorted, plain}, {});
  ASSERT_EQ(table.plans.size(), 1u);
  EXPECT_EQ(table.plans[0].problem, plain);
}

TEST_F(TwoDims, TheIndexHasTheClusterAndTheFlags) {
  const PlanTable table = table_of({{16, 16}}, {});
  const auto index_of = [&](const DeviceFacts& facts) {
    return nlohmann::json::parse(export_json(table_, table, compiler_, facts, [](const auto&, const auto&) {
      return ExportedKernel{.file = "cubins/x", .entry = "x"};
    }));
  };
  const auto json = index_of(facts_);
  EXPECT_FALSE(json.at("plans").at(0).at("origin").contains("floor_us")) << "no peaks are measured";
  DeviceFacts measured = facts_;
  measured.read_gb_per_s = 1000;
  EXPECT_GT(index_of(measured).at("plans").at(0).at("origin").at("floor_us"), 0);
  const auto& stage = json.at("plans").at(0).at("stages").at(0);
  EXPECT_EQ(json.at("schema"), 3);
  EXPECT_EQ(stage.at("grid"), nlohmann::json::parse(R"([["*", 2, "a"], "b", 1])"));
  EXPECT_EQ(stage.at("cluster"), 2);
  EXPECT_EQ(stage.at("pdl"), true);
  EXPECT_EQ(stage.at("per_sm"), false);
  EXPECT_EQ(stage.at("block"), nlohmann::json({64, 1, 1}));
  EXPECT_FALSE(stage.contains("arguments"));
}

TEST_F(TwoDims, ACoverMustNameADimOfWork) {
  EXPECT_THROW(table_of({{4, 8}}, {{.dim = "width", .from = 1, .to = 2}}), InputError);
  EXPECT_EQ(parse_cover("a=2:9").dim, "a");
  EXPECT_EQ(parse_cover("a=2:9").from, 2);
  EXPECT_EQ(parse_cover("a=7:7").to, 7);
  for (const char* wrong : {"", "a", "a=", "=1:2", "a=1", "a=0:3", "a=3:2", "a=1:2:3", "a=1:99999999999999"})
    EXPECT_THROW(parse_cover(wrong), InputError) << wrong;
}

/// The lowest value of `a` that a plan for a = 16 serves.
std::int64_t lowest_served(const LaunchExpressions& geometry) {
  std::vector<OpEntry> entries;
  entries.push_back(two_dim_op(geometry, "a >= 1"));
  const OpTable table(std::move(entries));
  const OpEntry& entry = table.find("two_dim");
  const Problem problem = problem_of(table, 16, 1);
  const Config config{{"block", 64}};
  const DeviceFacts facts = known_device("sm_90a");
  const Specialization kernels(entry, entry.variant("limited"), problem, config, facts);
  return kernels.largest_box({{"a", 1, 16}, {"b", 1, 1}})[0].from;
}

/// Attributes of a launch are equal all over a box: it is cut at halves, so that it ends at 9.
TEST(ExportedBox, ALaunchThatDiffersInAFlagIsInNoBox) {
  const Extents grid{"a"}, block{64};
  EXPECT_EQ(lowest_served({.grid = grid, .block = block}), 1);
  EXPECT_EQ(lowest_served({.grid = grid, .block = block, .pdl = "a > 8"}), 9);
  EXPECT_EQ(lowest_served({.grid = grid, .block = block, .cluster = "1 + (a > 8)"}), 9);
  EXPECT_EQ(lowest_served({.grid = grid, .block = block, .per_sm = "a > 8"}), 9);
  EXPECT_EQ(lowest_served({.grid = {"a % 2 == 0 ? 1 : a ^ 2"}, .block = block, .shared_bytes = "a * a"}), 1)
      << "any expression is exported";
}
#endif

}  // namespace
}  // namespace warptune
