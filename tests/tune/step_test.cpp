// Model steps in a sweep, from outside, on the host device.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "harness/results/csv.h"
#include "harness/results/sweep_file.h"
#include "harness/results/wisdom.h"
#include "tests/program.h"

namespace warptune {
namespace {
namespace fs = std::filesystem;

using testing::Ended, testing::fresh_folder, testing::run_shell;

class StepSweep : public ::testing::Test {
 protected:
  /// Tunes the sweep: two ops of a small model and its step at 64 keys. No fusion removes `embedding` from
  /// the step, so its candidates are timed on every machine.
  Ended tune(const std::string& more = "", const std::string& before = "") {
    std::ofstream(folder_ / "steps.yaml")
        << "device: host\ndtypes: fp32\nsampling: {min_samples: 6, max_time: 0.002}\nfinalists: 2\n"
           "models:\n  - {model: "
        << model_ << ", batch: 1, context: 64, max_configs: 2, ops: [embedding, rms_norm]}\n"
        << "steps:\n  - {model: " << model_ << ", context: [50, 64]}\n";
    return run_shell(before + " {} tune " + (folder_ / "steps.yaml").string() + " --out " + folder_.string() +
                     " " + more);
  }
  Ended decode(const std::string& more = "", int prompt_len = 20) {
    return run_shell("{} decode --device host --dtype fp32 --out " + folder_.string() + " --model " + model_ +
                     " --prompt-len " + std::to_string(prompt_len) + " --steps 4 " + more);
  }
  /// The wisdom without winners of steps: the same command then searches them again.
  Wisdom wisdom_of_ops() const {
    const Wisdom all = Wisdom::load(wisdom());
    Wisdom of_ops(all.provenance());
    for (const Winner& winner : all.winners()) of_ops.put(winner);
    return of_ops;
  }
  /// Records equal times of embedding on one and two threads. A screening may abandon all but the winner,
  /// which then is the only candidate. It forgets the step, since the candidates may be the same ones.
  void record_embeddings() const {
    Wisdom known = wisdom_of_ops();
    const auto is_embedding = [](const Winner& w) { return w.problem.op == "embedding"; };
    Winner winner = *std::ranges::find_if(known.winners(), is_embedding);
    const double us = winner.time_us;
    add_times(winner.times, {{"host_threaded", winner.source_hash, {"threads"}, {{{1}, us}, {{2}, us}}}});
    known.put(winner);
    known.save(wisdom());
  }
  /// Records another plan of embedding for the step than its winner.
  void record_other_embedding() const {
    Wisdom known = Wisdom::load(wisdom());
    StepWinner step = known.steps().front();
    for (StepPlan& plan : step.plans.plans)
      if (plan.problem.op == "embedding") {
        const bool is_naive = known.exact(plan.problem)->variant == "host_naive";
        plan.variant = is_naive ? "host_threaded" : "host_naive";
        plan.config = is_naive ? Config({{"threads", 2}}) : Config();
      }
    known.put(step);
    known.save(wisdom());
  }
  testing::Rows step_rows(const char* csv = "steps.csv") const {
    testing::Rows rows = read_csv(folder_ / "host" / csv);
    std::erase_if(rows, [](const auto& row) { return !is_step_row(row); });
    return rows;
  }
  fs::path wisdom() const { return folder_ / "host" / "wisdom.json"; }

  const fs::path folder_ =
      fresh_folder(std::string("step_") + ::testing::UnitTest::GetInstance()->current_test_info()->name());
  const std::string model_ = std::string(TEST_DATA) + "/golden/gqa";
};

TEST_F(StepSweep, EndsInTheStepAndDecodeTakesItsPlans) {
  tune();
  record_embeddings();
  const Ended tuned = tune("-v");
  ASSERT_EQ(tuned.code, 0) << tuned.text;
  const std::string key = "step[model=gqa,batch=1,context=64,dtype=fp32]";
  EXPECT_NE(tuned.text.find(key + ": "), std::string::npos) << tuned.text;
  const auto spent = tuned.text.find("  time: wait for a compile ");
  ASSERT_NE(spent, std::string::npos) << tuned.text;
  for (const char* stage : {", reference ", ", load ", ", verify ", ", samples ", ", other "})
    EXPECT_NE(tuned.text.find(stage, spent), std::string::npos) << stage;

  std::set<std::string> variants;
  for (const auto& row : step_rows()) {
    EXPECT_EQ(row.at("step"), key);
    EXPECT_EQ(row.at("status"), "ok") << row.at("detail");
    EXPECT_NE(row.at("time_us"), "");
    variants.insert(row.at("op") + "/" + row.at("variant"));
  }
  for (const char* name : {"step/alone", "step/options", "step/plans"})
    EXPECT_TRUE(variants.contains(name)) << name;
  EXPECT_TRUE(std::ranges::any_of(variants, [](const auto& v) { return v.starts_with("embedding/"); }));

  const Wisdom kept = Wisdom::load(wisdom());
  ASSERT_EQ(kept.steps().size(), 1u) << "both contexts are in one bucket";
  const StepWinner& step = kept.steps().front();
  EXPECT_EQ(step.step.key(), key);
  EXPECT_GT(step.time_us, 0);
  EXPECT_GT(step.alone_us, 0);
  EXPECT_TRUE(step.plans.options.has("fuse_append"));
  EXPECT_FALSE(std::ranges::any_of(step.plans.plans, [](const StepPlan& p) {
    return p.problem.op == "top_k";
  })) << "a greedy step does not solve it";

  const Ended decoded = decode();
  EXPECT_EQ(decoded.code, 0) << decoded.text;
  EXPECT_NE(decoded.text.find(" plans tuned in the step"), std::string::npos) << decoded.text;
  EXPECT_NE(decoded.text.find("plans: step"), std::string::npos) << decoded.text;
  const Ended other = decode("--kv-dtype int8 --variant embedding=host_naive");
  EXPECT_EQ(other.text.find("tuned in the step"), std::string::npos) << "its KV cache is another";
  const Ended forced = decode("--variant embedding=host_naive");
  EXPECT_NE(forced.text.find(" plans overrides, "), std::string::npos) << forced.text;
  EXPECT_NE(forced.text.find(" tuned in the step, "), std::string::npos) << forced.text;

  const Ended shown = run_shell("{} wisdom show " + wisdom().string());
  EXPECT_NE(shown.text.find(key + ": "), std::string::npos) << shown.text;
  EXPECT_EQ(run_shell("{} wisdom check " + wisdom().string()).code, 0);
}

TEST_F(StepSweep, AStepWithANearContextTakesThePlansThatDoNotDependOnIt) {
  ASSERT_EQ(tune().code, 0);
  const Ended near = decode("", 100);
  ASSERT_EQ(near.code, 0) << near.text;
  EXPECT_NE(near.text.find(" of a near step"), std::string::npos) << near.text;
  EXPECT_NE(near.text.find("plans: near_step"), std::string::npos) << near.text;
  EXPECT_EQ(near.text.find("tuned in the step"), std::string::npos) << near.text;
  const Ended both = decode("", 62);
  EXPECT_NE(both.text.find("plans: near_step"), std::string::npos) << "it ends in the next bucket\n"
                                                                   << both.text;
  const Ended forced = decode("--baseline naive", 100);
  EXPECT_EQ(forced.text.find("near step"), std::string::npos) << forced.text;
}

TEST_F(StepSweep, AStepOnQuantizedWeightsHasItsOwnPlans) {
  std::ofstream(folder_ / "steps.yaml")
      << "device: host\ndtypes: fp32\nsampling: {min_samples: 6, max_time: 0.002}\nfinalists: 2\n"
         "models:\n  - {model: "
      << model_
      << ", weights: [same, int8], context: 64, cache: hot, max_configs: 1, ops: [embedding, linear]}\n"
      << "steps:\n  - {model: " << model_ << ", weights: int8, context: 64, candidates: 2}\n";
  const Ended tuned =
      run_shell("{} tune " + (folder_ / "steps.yaml").string() + " --out " + folder_.string());
  ASSERT_EQ(tuned.code, 0) << tuned.text;
  const Wisdom kept = Wisdom::load(wisdom());
  ASSERT_EQ(kept.steps().size(), 1u);
  EXPECT_EQ(kept.steps().front().step.key(), "step[model=gqa,batch=1,context=64,weights=int8,dtype=fp32]");
  for (const auto& row : step_rows()) EXPECT_EQ(row.at("status"), "ok") << row.at("detail");
  const Ended decoded = decode("--weights int8");
  EXPECT_EQ(decoded.code, 0) << decoded.text;
  EXPECT_NE(decoded.text.find(" plans tuned in the step"), std::string::npos) << decoded.text;
  EXPECT_NE(decoded.text.find("+weights=int8"), std::string::npos) << decoded.text;
  for (const char* other : {"", "--weights fp8"})
    EXPECT_EQ(decode(other).text.find("tuned in the step"), std::string::npos) << other;
  EXPECT_EQ(run_shell("{} wisdom check " + wisdom().string()).code, 0);
}

TEST_F(StepSweep, AFinishedStepIsNotSearchedAgain) {
  ASSERT_EQ(tune().code, 0);
  const auto rows = step_rows().size();
  const Ended again = tune();
  EXPECT_NE(again.text.find("from an earlier run with the same candidates"), std::string::npos) << again.text;
  EXPECT_EQ(step_rows().size(), rows);
  // Without its winner, or with --fresh, it is.
  wisdom_of_ops().save(wisdom());
  ASSERT_EQ(tune().code, 0);
  EXPECT_GT(step_rows().size(), rows);
  EXPECT_EQ(Wisdom::load(wisdom()).steps().size(), 1u);
}

TEST_F(StepSweep, ASearchTriesTheRecordedPlansOfItsStepFirst) {
  ASSERT_EQ(tune().code, 0);
  record_other_embedding();
  ASSERT_EQ(tune("--fresh").code, 0);
  const auto rows = step_rows("steps.2.csv");
  const auto recorded = std::ranges::find(rows, "recorded", [](const auto& r) { return r.at("variant"); });
  ASSERT_NE(recorded, rows.end());
  EXPECT_EQ(recorded->at("status"), "ok") << recorded->at("detail");
  EXPECT_NE(recorded->at("detail").find(" of the step's time so far"), std::string::npos);
}

TEST_F(StepSweep, ASearchTriesThePlansOfAStepWithANearContextFirst) {
  ASSERT_EQ(tune().code, 0);
  record_other_embedding();
  std::ofstream(folder_ / "far.yaml")
      << "device: host\ndtypes: fp32\nsteps:\n  - {model: " << model_ << ", context: [1024, 128]}\n";
  const Ended tuned = run_shell("{} tune " + (folder_ / "far.yaml").string() + " --out " + folder_.string());
  ASSERT_EQ(tuned.code, 0) << tuned.text;
  std::set<std::string> recorded;
  for (const auto& row : step_rows("far.csv"))
    if (row.at("variant") == "recorded") recorded.insert(row.at("step"));
  EXPECT_EQ(recorded, std::set<std::string>{"step[model=gqa,batch=1,context=128,dtype=fp32]"})
      << "from 64 to 1024 is a factor of 16";
}

TEST_F(StepSweep, ABudgetBeginsWithWhatTakesTheTimeAndTheSameCommandGoesOn) {
  std::ofstream(folder_ / "steps.yaml")
      << "device: host\ndtypes: fp32\nsampling: {min_samples: 6, max_time: 0.002}\nfinalists: 2\n"
         "models:\n  - {model: "
      << model_ << ", batch: 1, context: 64, cache: hot, max_configs: 1}\n"
      << "steps:\n  - {model: " << model_ << ", context: 64}\n";
  const std::string command = "{} tune " + (folder_ / "steps.yaml").string() + " --out " + folder_.string();
  const Ended first = run_shell(command + " --budget 0.001s");
  EXPECT_EQ(first.code, 0) << first.text;
  EXPECT_NE(first.text.find("and 1 step are left; the same command goes on"), std::string::npos)
      << first.text;
  const Wisdom begun = Wisdom::load(wisdom());
  ASSERT_EQ(begun.winners().size(), 1u);
  EXPECT_NE(begun.winners()[0].problem.key().find("epilogue=project"), std::string::npos)
      << "attention and o in one kernel have the largest share, embedding comes first in the step";
  EXPECT_TRUE(begun.steps().empty());

  const Ended second = run_shell(command + " --budget 1h");
  EXPECT_EQ(second.code, 0) << second.text;
  EXPECT_EQ(second.text.find("the budget is spent"), std::string::npos) << second.text;
  EXPECT_EQ(Wisdom::load(wisdom()).steps().size(), 1u);
}

TEST_F(StepSweep, ASearchThatTheBudgetEndsIsMadeAgain) {
  ASSERT_EQ(tune("--budget 0.4s").code, 0);
  const auto plans = [&] {
    std::vector<std::string> sampling;
    for (const auto& row : step_rows())
      if (row.at("variant") == "plans") sampling.push_back(row.at("sampling"));
    return sampling;
  };
  const auto first = plans();
  ASSERT_EQ(tune().code, 0);
  if (!first.empty() && first.back() == "finalist") GTEST_SKIP() << "this machine searches the step in 0.4 s";
  EXPECT_EQ(plans().size(), first.size() + 1);
  EXPECT_EQ(plans().back(), "finalist");
}

TEST_F(StepSweep, WhatDoesNotFitTheMemoryIsLeftOut) {
  fs::create_directories(folder_ / "giant");
  std::ofstream(folder_ / "giant/config.json")
      << R"({"model_type": "llama", "hidden_size": 8192, "intermediate_size": 28672, "num_hidden_layers": 1000,)"
         R"("num_attention_heads": 64, "vocab_size": 32000, "rms_norm_eps": 1e-5})";
  std::ofstream(folder_ / "steps.yaml")
      << "device: host\ndtypes: fp32\nsampling: {min_samples: 6, max_time: 0.002}\nops:\n"
         "  - {op: rms_norm, problems: [{tokens: [2, 134217728], hidden: 4096}], variants: [host_threaded]}\n"
         "steps:\n  - {model: giant, context: 64}\n";
  const Ended tuned =
      run_shell("{} tune " + (folder_ / "steps.yaml").string() + " --out " + folder_.string());
  EXPECT_EQ(tuned.code, 0) << tuned.text;
  for (const char* line :
       {"left out: rms_norm[tokens=134217728,hidden=4096,dtype=fp32] needs 4194304 MiB and host has",
        "left out: step[model=giant,batch=1,context=64,dtype=fp32] needs "})
    EXPECT_NE(tuned.text.find(line), std::string::npos) << line << " is not in\n" << tuned.text;
  EXPECT_EQ(Wisdom::load(wisdom()).winners().size(), 1u);
}

TEST_F(StepSweep, AModelIsABareConfigAlsoWhereItIsQuantized) {
  fs::create_directories(folder_ / "bare");
  fs::copy_file(fs::path(TEST_DATA) / "quantized/ct_int4/config.json", folder_ / "bare/config.json");
  std::ofstream(folder_ / "bare.yaml")
      << "device: host\ndtypes: fp32\nmax_configs: 1\nsampling: {min_samples: 6, max_time: 0.002}\nmodels:\n"
         "  - {model: bare, context: 64}\nsteps:\n  - {model: bare, context: 64, candidates: 1}\n";
  const Ended tuned = run_shell("{} tune " + (folder_ / "bare.yaml").string() + " --out " + folder_.string());
  EXPECT_EQ(tuned.code, 0) << tuned.text;
  EXPECT_NE(tuned.text.find("step[model=bare"), std::string::npos) << tuned.text;
  EXPECT_TRUE(std::ranges::any_of(Wisdom::load(wisdom()).winners(), [](const Winner& winner) {
    return winner.problem.key().find("weights=int4,group=32") != std::string::npos;
  }));
}

TEST_F(StepSweep, ACandidateThatKillsTheWorkerCostsItsRowOnly) {
  const Ended tuned = tune("", "WARPTUNE_WORKER_FAULT='abort:step fuse_append=yes'");
  EXPECT_EQ(tuned.code, 0) << tuned.text;
  int crashes = 0;
  for (const auto& row : step_rows())
    if (row.at("status") == "crash") {
      ++crashes;
      EXPECT_EQ(row.at("config"), "fuse_append=yes");
    }
  EXPECT_GE(crashes, 1);
  ASSERT_EQ(Wisdom::load(wisdom()).steps().size(), 1u);
  EXPECT_EQ(Wisdom::load(wisdom()).steps().front().plans.options["fuse_append"], 0);
}

TEST_F(StepSweep, AStepThatFailsFromTheStartExitsWithOne) {
  const Ended tuned = tune("", "WARPTUNE_WORKER_FAULT='throw:step '");
  EXPECT_EQ(tuned.code, 1) << tuned.text;
  EXPECT_NE(tuned.text.find("the step with the winners of its ops fails"), std::string::npos) << tuned.text;
  ASSERT_EQ(step_rows().size(), 1u);
  EXPECT_EQ(step_rows()[0].at("status"), "crash");
  EXPECT_TRUE(Wisdom::load(wisdom()).steps().empty());
}

TEST_F(StepSweep, OtherCodeOfAPlanRefusesTheWholeStep) {
  ASSERT_EQ(tune().code, 0);
  Wisdom changed = Wisdom::load(wisdom());
  StepWinner step = changed.steps().front();
  step.plans.plans.front().source_hash = "0";
  changed.put(step);
  changed.save(wisdom());
  const Ended decoded = decode("--explain");
  EXPECT_EQ(decoded.code, 0);
  EXPECT_EQ(decoded.text.find(" plans tuned in the step"), std::string::npos) << decoded.text;
  EXPECT_NE(decoded.text.find("the plans that were tuned in the step are not used: "), std::string::npos)
      << decoded.text;
  EXPECT_EQ(run_shell("{} wisdom check " + wisdom().string()).code, 1);
  EXPECT_NE(decode("--stale-wisdom use").text.find(" plans tuned in the step"), std::string::npos);
}

}  // namespace
}  // namespace warptune
