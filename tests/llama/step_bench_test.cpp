// The bench of a model's decode step, on the host.
#include "harness/llama/step_bench.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "harness/core/error.h"
#include "harness/core/space.h"
#include "harness/llama/fusion.h"
#include "harness/llama/model_problems.h"
#include "kernels/argmax/args.h"
#include "tests/llama/small_models.h"
#include "variants/table.h"

namespace warptune {
namespace {

using HostVariant = std::function<HostFunction(const Problem&, const Config&)>;

/// The ops, one of them with a further variant.
OpTable ops_with(const std::string& op, const std::string& name, HostVariant host) {
  std::vector<OpEntry> entries(ops().begin(), ops().end());
  for (OpEntry& entry : entries)
    if (entry.op.name == op)
      entry.variants.push_back(
          {.name = name, .idea = "for a test", .backend = Backend::host, .host = std::move(host)});
  return OpTable(std::move(entries));
}

const StepSpec kSpec = {
    .model = testing::tiny(), .dtype = DType::fp32, .batch = 2, .context = 64, .kv = {}, .seed = 3};

/// The problem of an op in the step of kSpec.
Problem problem_in_step(StepBench& bench, const OpTable& table, const std::string& op) {
  const std::int64_t contexts[] = {kSpec.context};
  for (const Problem& problem : decode_problems(table, kSpec.model, kSpec.dtype, kSpec.batch, contexts)) {
    const auto keys = bench.compare({}, {}, 3).problems;
    if (problem.op == op && std::ranges::find(keys, problem.key()) != keys.end()) return problem;
  }
  throw std::logic_error("no such problem");
}

TEST(StepBench, TimesAStepAndSaysWhatItSolves) {
  const auto device = open_device("host");
  StepBench bench(ops(), *device, kSpec, [] { return 0.0; });  // no round is too late
  const StepTimes times = bench.compare({}, {}, 6);
  EXPECT_EQ(times.candidate.status, Status::ok) << times.candidate.detail;
  EXPECT_EQ(times.candidate.samples, 6);
  EXPECT_GT(times.candidate.time_us, 0);
  EXPECT_LT(times.candidate.rel_l2_err, 1e-5) << "of its logits against those of the naive plans";
  EXPECT_EQ(times.ratio.median, 1) << "one step is not timed against itself";
  const auto has = [&](const StepTimes& of, const std::string& op) {
    return std::ranges::any_of(of.problems, [&](const auto& key) { return key.starts_with(op + "["); });
  };
  for (const char* op : {"linear", "rope_append", "rms_norm", "swiglu", "argmax", "advance"})
    EXPECT_TRUE(has(times, op)) << op << ": a step without options fuses nothing";

  StepPlans fused;
  set_option(fused.options, "fuse_append", true);
  const StepTimes both = bench.compare({}, fused, 6);
  EXPECT_EQ(both.candidate.status, Status::ok) << both.candidate.detail;
  EXPECT_FALSE(has(both, "rope_append"));

  const StepTimes surely_slow = bench.compare({}, fused, 21, 0.0);
  EXPECT_EQ(surely_slow.candidate.status, Status::ok) << surely_slow.candidate.detail;
  EXPECT_EQ(surely_slow.candidate.samples, 6) << "every ratio is above 0";

  set_option(fused.options, "fuse_norm", true);
  set_option(fused.options, "fuse_swiglu", true);
  set_option(fused.options, "fuse_argmax", true);
  const StepTimes all = bench.compare({}, fused, 6);
  EXPECT_EQ(all.candidate.status, Status::ok) << all.candidate.detail;
  EXPECT_FALSE(has(all, "swiglu") || has(all, "add_rms_norm") || has(all, "rms_norm") || has(all, "argmax"));
  EXPECT_EQ(both.incumbent.samples, 6);
  EXPECT_GT(both.ratio.median, 0);
  EXPECT_LE(both.ratio.low, both.ratio.median);
  EXPECT_GE(both.ratio.high, both.ratio.median);
}

TEST(StepBench, TakesTheGivenPlans) {
  int launches = 0;
  const OpTable table = ops_with("swiglu", "counted", [&](const Problem& p, const Config& c) -> HostFunction {
    return [&launches, right = find_op("swiglu").variant("host_naive").host(p, c)](const void* args) {
      ++launches;
      right(args);
    };
  });
  const auto device = open_device("host");
  StepBench bench(table, *device, kSpec);
  const Problem swiglu = problem_in_step(bench, table, "swiglu");
  EXPECT_EQ(launches, 0);
  const StepTimes times = bench.compare({}, {.plans = {{swiglu, "counted", {}}}}, 6);
  EXPECT_EQ(times.candidate.status, Status::ok) << times.candidate.detail;
  EXPECT_EQ(launches, kSpec.model.layers * (6 + 2)) << "six samples, verified before and after";
}

TEST(StepBench, AWrongPlanIsRefused) {
  const auto refused = [](const std::string& op, HostFunction wrong) {
    const OpTable table = ops_with(op, "wrong", [&](const Problem&, const Config&) { return wrong; });
    const auto device = open_device("host");
    StepBench bench(table, *device, kSpec);
    const StepPlans right, plans = {.plans = {{problem_in_step(bench, table, op), "wrong", {}}}};
    const Measurement m = bench.compare(right, plans, 6).candidate;
    EXPECT_EQ(m.status, Status::wrong_result) << op;
    EXPECT_TRUE(std::isnan(m.time_us)) << op;
    EXPECT_EQ(bench.compare(right, right, 6).candidate.status, Status::ok) << "the next is not affected";
    return m.detail;
  };
  const std::string logits = "before timing in the step: sequence 0, step 0: a logit is off";
  EXPECT_EQ(refused("swiglu", [](const void*) {}).substr(0, logits.size()), logits) << "it writes nothing";
  EXPECT_EQ(refused("linear", [](const void*) {}).substr(0, logits.size()), logits);
  EXPECT_EQ(refused("embedding", [](const void*) {}).substr(0, logits.size()), logits)
      << "the last replay's rows do not pass for its own";
  EXPECT_EQ(refused("argmax",
                    [](const void* raw) {
                      const auto& args = *static_cast<const ArgmaxArgs*>(raw);
                      for (int b = 0; b < args.batch; ++b) args.ids[b] = -5;
                    }),
            "before timing in the step: sequence 1: token -5 does not have the largest logit");
}

TEST(StepBench, APlanBeyondTheDeviceIsNotReplacedByAnother) {
  const OpTable table = ops_with("swiglu", "large", [](const Problem&, const Config&) -> HostFunction {
    throw ResourceError("it takes too much");
  });
  const auto device = open_device("host");
  StepBench bench(table, *device, kSpec);
  const Measurement m =
      bench.compare({}, {.plans = {{problem_in_step(bench, table, "swiglu"), "large", {}}}}, 6).candidate;
  EXPECT_EQ(m.status, Status::resource);
  EXPECT_NE(m.detail.find("it takes too much"), std::string::npos) << m.detail;
}

TEST(StepBench, TimesAStepOnQuantizedWeights) {
  const auto device = open_device("host");
  for (const char* format : {"int8", "int4:group=0", "fp8"}) {
    StepSpec spec = kSpec;
    spec.model.weights = parse_weight_format(format);
    StepBench bench(ops(), *device, spec);
    const StepTimes times = bench.compare({}, {}, 6);
    EXPECT_EQ(times.candidate.status, Status::ok) << times.candidate.detail;
    EXPECT_LT(times.candidate.rel_l2_err, 1e-5) << "of its logits against those of the naive plans";
    const auto gemms = std::ranges::count_if(
        times.problems, [](const auto& key) { return key.find("weights=") != std::string::npos; });
    EXPECT_EQ(gemms, 4) << "qkv, o, gate_up and down of all layers; not lm_head";
    StepPlans fused;
    for (const char* option : {"fuse_append", "fuse_norm", "fuse_swiglu", "fuse_argmax"})
      set_option(fused.options, option, true);
    const StepTimes both = bench.compare({}, fused, 6);
    EXPECT_EQ(both.candidate.status, Status::ok) << both.candidate.detail;
  }
}

TEST(StepProblem, NamesTheFormatOfTheWeights) {
  for (const WeightFormat& format : testing::all_weight_formats())
    for (const char* cache : {"", "+kv=int8+page=16"}) {
      StepSpec spec = kSpec;
      spec.model.weights = format;
      spec.kv = parse_kv_suffix(cache);
      const Problem step = step_problem(spec);
      EXPECT_EQ(step.key().find("weights=") != std::string::npos, format.quantized()) << step.key();
      EXPECT_EQ(step_problem(step_spec(step, testing::tiny())).key(), step.key());
      EXPECT_EQ(step_spec(step, testing::tiny()).model.weights, format) << step.key();
      EXPECT_EQ(step_spec(step, spec.model).model.weights, format) << step.key();
    }
  StepSpec spec = kSpec;
  spec.model.weights = parse_weight_format("int4");
  EXPECT_EQ(step_problem(spec).key(),
            "step[model=tiny,batch=2,context=64,weights=int4:group=128,dtype=fp32]");
  Problem wrong = step_problem(spec);
  wrong.dims.set("weights", 0, "int3");
  EXPECT_THROW(step_spec(wrong, spec.model), InputError);
  wrong.dims.set("weights", 0, "int4");  // not as it is written
  EXPECT_THROW(step_spec(wrong, spec.model), InputError);
}

TEST(GpuStepBench, TimesFusedAndNaivePlansAgainstTheDefaults) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
  const auto device = open_device("cuda:0");
  StepSpec spec = kSpec;
  spec.model = read_model_config(std::filesystem::path(TEST_DATA) / "golden" / "gqa" / "config.json");
  spec.dtype = DType::bf16;
  StepBench bench(ops(), *device, spec);
  StepPlans start, fused, naive;
  for (const FusionOption& option : kFusionOptions) {
    set_option(start.options, option.name, false);
    set_option(fused.options, option.name, true);
  }
  set_option(fused.options, "fuse_o", false);  // o inside attention and a split norm exclude each other
  naive.options = start.options;
  const std::int64_t contexts[] = {spec.context};
  for (const Problem& problem : decode_problems(ops(), spec.model, spec.dtype, spec.batch, contexts))
    if (problem.op == "rms_norm" || problem.op == "swiglu") {
      const Variant& variant = find_op(problem.op).variant("naive");
      naive.plans.push_back({problem, "naive", Space(variant, problem, device->facts()).configs().front()});
    }
  for (const StepPlans& candidate : {start, fused, naive}) {
    const StepTimes times = bench.compare(start, candidate, 11);
    EXPECT_EQ(times.candidate.status, Status::ok) << candidate.str() << ": " << times.candidate.detail;
    EXPECT_GT(times.candidate.time_us, 0);
  }
}

TEST(StepBench, AModelBeyondTheMemoryIsRefusedBeforeItIsMade) {
  StepSpec spec = kSpec;
  spec.model.intermediate = 1 << 30;
  const auto device = open_device("host");
  try {
    StepBench(ops(), *device, spec);
    ADD_FAILURE() << "made";
  } catch (const ResourceError& e) {
    EXPECT_NE(std::string(e.what()).find("tiny needs"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace warptune
