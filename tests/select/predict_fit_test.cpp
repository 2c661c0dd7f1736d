#include "harness/select/predict_fit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/attention_times.h"

namespace warptune {
namespace {
using testing::decode_problem;
using testing::h200;
using testing::in_waves;
using testing::pipelined;
using testing::prompt_problem;
using testing::timed;
using testing::TimeOf;

bool all_hold(const Winner&, const VariantTimes&) { return true; }

std::optional<Prediction> predict_here(const Wisdom& wisdom, const Problem& problem) {
  return FitPredictor({wisdom, find_op(problem.op), problem.dtype, h200(), all_hold}).predict(problem);
}

/// Batches of 10 to 64, two contexts.
Wisdom tuned(const std::vector<Config>& configs, const TimeOf& time_of) {
  Wisdom wisdom;
  for (const std::int64_t context : {1024, 4096})
    for (const std::int64_t batch : {10, 12, 14, 16, 20, 24, 32, 48, 64})
      wisdom.put(timed(decode_problem(batch, context), configs, time_of));
  return wisdom;
}

TEST(FitPredictor, SplitsSoThatWavesAreFull) {
  const std::vector<Config> configs = {pipelined(1), pipelined(2), pipelined(4)};
  const Wisdom wisdom = tuned(configs, in_waves);
  for (const std::int64_t batch : {13, 15, 17, 18, 23, 26, 33, 40}) {
    const Problem problem = decode_problem(batch, 2000);
    const auto chosen = predict_here(wisdom, problem);
    ASSERT_TRUE(chosen) << batch;
    double best = 1e9;
    for (const Config& config : configs) best = std::min(best, in_waves(problem, config));
    EXPECT_LE(in_waves(problem, chosen->config), 1.02 * best) << batch << " " << chosen->config.str();
    EXPECT_NEAR(chosen->time_us, in_waves(problem, chosen->config), 0.05 * best) << batch;
  }
}

TEST(FitPredictor, ClustersOfFourLeaveSmsIdle) {
  Config ll{{"splits", 4}, {"warps", 8}, {"warps_per_sm", 8}, {"tile_kv", 16}};  // of mma_direct
  ll.set("combine", 3, "ll");
  ll.set("pdl", 1);
  Config clusters = ll;
  clusters.set("combine", 2, "cluster");
  const TimeOf time_of = [](const Problem& p, const Config& c) {  // clusters combine splits in no time
    const bool cluster = c["combine"] == 2;
    const auto blocks = static_cast<double>(c["splits"] * p["batch"] * p["kv_heads"]);
    return 2 + std::ceil(blocks / (cluster ? 120 : 132)) * find_op(p.op).op.cost(p).bytes / blocks / 33e3 +
           (cluster ? 0 : 0.5);
  };
  Wisdom wisdom;
  for (const std::int64_t context : {1024, 4096})
    for (const std::int64_t batch : {3, 5, 6, 7, 10, 14, 20, 28})
      wisdom.put(timed(decode_problem(batch, context), {ll, clusters}, time_of, "mma_direct"));
  for (const std::int64_t batch : {4, 8, 9, 11, 12, 15})
    for (const std::int64_t context : {1024, 2000}) {
      const Problem problem = decode_problem(batch, context);
      const auto chosen = predict_here(wisdom, problem);
      ASSERT_TRUE(chosen) << problem.key();
      const bool better = time_of(problem, clusters) < time_of(problem, ll);
      EXPECT_EQ(chosen->config["combine"], better ? 2 : 3) << problem.key();
    }
}

TEST(FitPredictor, PartialTilesMakeOneWarpTheBusiest) {
  const TimeOf in_chunks = [](const Problem& p, const Config& c) {  // of 128 keys per block
    const double keys = static_cast<double>(p["context"]), chunk = 128.0 * static_cast<double>(c["splits"]);
    return 2 + (in_waves(p, c) - 2) * std::ceil(keys / chunk) * chunk / keys;
  };
  const Wisdom wisdom = tuned({pipelined(1), pipelined(2), pipelined(4)}, in_chunks);
  for (const std::int64_t context : {1030, 1200, 1500, 2060}) {
    const Problem problem = decode_problem(17, context);
    const auto chosen = predict_here(wisdom, problem);
    ASSERT_TRUE(chosen) << context;
    const double us = in_chunks(problem, chosen->config);
    EXPECT_NEAR(chosen->time_us, us, 0.05 * us) << context << ' ' << chosen->config.str();
  }
}

TEST(FitPredictor, TheFirstTripsToMemoryAddTime) {
  const TimeOf in_trips = [](const Problem& p, const Config& c) {  // chunks of 16 keys for each of 8 warps
    const auto splits = static_cast<double>(c["splits"]);
    const double rounds = std::ceil(splits * static_cast<double>(p["batch"] * p["kv_heads"]) / 132),
                 trips = std::ceil(static_cast<double>(p["context"]) / (128 * splits));
    return 1 + rounds * std::min(trips, 4.0) + find_op(p.op).op.cost(p).bytes / 33e6;
  };
  Wisdom wisdom;
  for (const std::int64_t context : {100, 128, 200, 256, 384, 450, 512, 700})
    for (const std::int64_t batch : {9, 12, 16})
      wisdom.put(timed(decode_problem(batch, context), {pipelined(1), pipelined(2)}, in_trips));
  for (const std::int64_t context : {120, 240, 260, 500, 520}) {
    const Problem problem = decode_problem(14, context);
    const auto chosen = predict_here(wisdom, problem);
    ASSERT_TRUE(chosen) << context;
    const double us = in_trips(problem, chosen->config);
    EXPECT_NEAR(chosen->time_us, us, 0.05 * us) << context << ' ' << chosen->config.str();
    EXPECT_LE(us, 1.02 * std::min(in_trips(problem, pipelined(1)), in_trips(problem, pipelined(2))))
        << context;
  }
}

/// The end, in us, of the last of 132 blocks that fetch query tiles from a dynamic scheduler, longest first,
/// 32 heads.
double last_end(const Problem& p, const Config& c) {
  const std::int64_t tile_m = 64 * c["consumers"], tile_n = c["tile_n"], q_len = p["q_len"];
  std::vector<double> ends(132);
  for (std::int64_t batch = 0; batch < p["batch"]; ++batch)
    for (std::int64_t tile = ceil_div(q_len, tile_m); tile-- > 0;)
      for (int head = 0; head < 32; ++head) {
        const std::int64_t keys = ceil_div(std::min(q_len, (tile + 1) * tile_m), tile_n) * tile_n + 192;
        *std::ranges::min_element(ends) += 1e-4 * static_cast<double>(keys * tile_m);
      }
  return std::ranges::max(ends);
}

TEST(FitPredictor, TheBlockThatEndsLastSetsTheTime) {
  const auto tiles = [](std::int64_t consumers, std::int64_t tile_n) {
    return Config{
        {"consumers", consumers}, {"tile_n", tile_n}, {"stages", 2}, {"pingpong", 1}, {"l2_swizzle", 32}};
  };
  const std::vector<Config> configs = {tiles(2, 128), tiles(3, 80)};
  const TimeOf time_of = [](const Problem& p, const Config& c) { return 3 + last_end(p, c); };
  Wisdom wisdom;
  for (const std::int64_t q_len : {256, 320, 384, 512, 640, 768, 1024, 1200})
    for (const std::int64_t batch : {1, 2, 3, 4, 6})
      wisdom.put(timed(prompt_problem(batch, q_len), configs, time_of, "flash_wgmma"));
  for (const std::int64_t q_len : {312, 395, 443, 576, 700, 963})
    for (const std::int64_t batch : {2, 3, 5}) {
      const Problem problem = prompt_problem(batch, q_len);
      const auto chosen = predict_here(wisdom, problem);
      ASSERT_TRUE(chosen) << problem.key();
      const double us = time_of(problem, chosen->config);
      EXPECT_NEAR(chosen->time_us, us, 0.01 * us) << problem.key() << ' ' << chosen->config.str();
      EXPECT_LE(us, 1.01 * std::min(time_of(problem, configs[0]), time_of(problem, configs[1])))
          << problem.key();
    }
}

TEST(FitPredictor, RegistersLimitResidentBlocks) {
  for (const std::int64_t keys : {16, 32}) {
    const int resident = keys == 16 ? 3 : 2;  // blocks per SM
    Config direct{{"splits", 1}, {"warps", 4}, {"warps_per_sm", 8}, {"tile_kv", keys}};
    direct.set("combine", 1, "last_block");
    direct.set("pdl", 1);
    const TimeOf time_of = [=](const Problem& p, const Config&) {
      const auto blocks = static_cast<double>(p["batch"] * p["kv_heads"]);
      return 2 +
             std::ceil(blocks / 132 / resident) * resident * find_op(p.op).op.cost(p).bytes / blocks / 33e3;
    };
    Wisdom wisdom;
    for (const std::int64_t context : {1024, 4096})
      for (const std::int64_t batch : {20, 24, 28, 36, 44, 52, 64, 80})
        wisdom.put(timed(decode_problem(batch, context), {direct}, time_of, "mma_direct"));
    for (const std::int64_t batch : {26, 32, 34, 50, 60, 66, 70}) {
      const Problem problem = decode_problem(batch, 2000);
      const auto chosen = predict_here(wisdom, problem);
      ASSERT_TRUE(chosen) << batch;
      EXPECT_NEAR(chosen->time_us / time_of(problem, direct), 1, 0.05) << keys << ' ' << batch;
    }
  }
}

TEST(FitPredictor, PrefersConfigurationsThatFitWell) {
  const TimeOf erratic = [](const Problem& p, const Config& c) {  // 4 warps are 3 % faster, on average
    return in_waves(p, c) * (c["warps"] == 8 ? 1 : p["batch"] % 4 == 0 ? 1.17 : 0.77);
  };
  const TimeOf steady = [](const Problem& p, const Config& c) {
    return in_waves(p, c) * (c["warps"] == 8 ? 1 : 0.97);
  };
  const auto warps = [](const TimeOf& time_of) {
    Wisdom wisdom = tuned({pipelined(1, 4), pipelined(1, 8)}, time_of);
    return predict_here(wisdom, decode_problem(17, 2000))->config["warps"];
  };
  EXPECT_EQ(warps(steady), 4);
  EXPECT_EQ(warps(erratic), 8);
}

TEST(FitPredictor, WeighsNearTimesMore) {
  const TimeOf bent = [](const Problem& p, const Config& c) {  // not a sum of the terms
    return in_waves(p, c) * (1 + 0.3 * std::sin(std::log2(static_cast<double>(p["context"]))));
  };
  Wisdom wisdom;
  for (std::int64_t context = 256; context <= 65536; context += context / 2)
    wisdom.put(timed(decode_problem(16, context), {pipelined(1)}, bent));
  for (const std::int64_t context : {1500, 3000, 5000, 9000}) {
    const Problem problem = decode_problem(16, context);
    EXPECT_NEAR(predict_here(wisdom, problem)->time_us / bent(problem, pipelined(1)), 1, 0.05) << context;
  }
}

TEST(FitPredictor, TakesTheKernelThatIsFasterThere) {
  const TimeOf steep = [](const Problem& p, const Config& c) {  // 4 warps start sooner, 8 stream faster
    return c["warps"] == 4 ? 2 + 1.1 * in_waves(p, c) : 9 + in_waves(p, c);
  };
  Wisdom wisdom;
  for (const std::int64_t context : {256, 512, 1024, 4096, 8192, 16384})
    wisdom.put(timed(decode_problem(16, context), {pipelined(1, 4), pipelined(1, 8)}, steep));
  const auto near = predict_here(wisdom, decode_problem(16, 700)),
             far = predict_here(wisdom, decode_problem(16, 12000));
  ASSERT_TRUE(near && far);
  EXPECT_EQ(near->config["warps"], 4);
  EXPECT_EQ(far->config["warps"], 8);
  EXPECT_EQ(far->variant->name, "mma_pipelined");
}

TEST(FitPredictor, MoreWorkIsNeverPredictedFaster) {
  const auto odd = [](std::int64_t batch, double us) {  // which no fit predicts
    Wisdom wisdom = tuned({pipelined(1)}, in_waves);
    wisdom.put(timed(decode_problem(batch, 2048), {pipelined(1)},
                     [=](const Problem&, const Config&) { return us; }));
    return predict_here(wisdom, decode_problem(22, 2048))->time_us;
  };
  const double us = in_waves(decode_problem(22, 2048), pipelined(1));
  EXPECT_GE(odd(21, 1.5 * us), 1.5 * us);
  EXPECT_LE(odd(23, 0.9 * us), 0.9 * us);
  EXPECT_LT(odd(23, 1.5 * us), 1.5 * us);
}

TEST(FitPredictor, PredictsNothingFromTooFewTimes) {
  const Wisdom wisdom = tuned({pipelined(1), pipelined(2)}, in_waves);
  EXPECT_TRUE(predict_here(wisdom, decode_problem(16, 2048)));
  EXPECT_TRUE(predict_here(wisdom, decode_problem(16, 2048, 64, 8)))
      << "groups of 8 heads are near groups of 4";
  EXPECT_FALSE(predict_here(wisdom, decode_problem(16, 2048, 32, 32))) << "single heads are not";
  EXPECT_FALSE(predict_here(wisdom, decode_problem(16, 65536))) << "too far from all that was timed";
  Problem other = decode_problem(16, 2048);
  other.dtype = DType::fp16;
  EXPECT_FALSE(predict_here(wisdom, other)) << "another dtype";
  other = decode_problem(16, 2048);
  other.dims.set("append", 1, "yes");
  EXPECT_FALSE(predict_here(wisdom, other)) << "another feature";

  Wisdom few;  // five times of one kernel
  for (const std::int64_t context : {1024, 2048, 4096, 8192, 16384})
    few.put(timed(decode_problem(16, context), {pipelined(1)}, in_waves));
  EXPECT_FALSE(predict_here(few, decode_problem(16, 3000)));
  few.put(timed(decode_problem(16, 512), {pipelined(1)}, in_waves));
  EXPECT_TRUE(predict_here(few, decode_problem(16, 3000)));
  EXPECT_FALSE(predict_here(few, decode_problem(16, 1024))) << "the times of the problem itself do not count";
}

TEST(FitPredictor, ChoosesNoKernelTimedOnFewProblems) {
  const auto warps =
      [](int problems) {  // number of problems that timed a kernel of 4 warps, three times each
        const TimeOf half = [](const Problem& p, const Config& c) { return in_waves(p, c) / 2; };
        Wisdom wisdom = tuned({pipelined(1, 8)}, in_waves);  // of 18 problems
        for (std::int64_t context = 1500; problems-- > 0; context += 300)
          wisdom.put(
              timed(decode_problem(16, context), {pipelined(1, 4), pipelined(8, 4), pipelined(16, 4)}, half));
        return predict_here(wisdom, decode_problem(17, 2000))->config["warps"];
      };
  EXPECT_EQ(warps(4), 4);
  EXPECT_EQ(warps(3), 8);
}

TEST(FitPredictor, UsesTimesOfAnotherL2Prefetch) {
  Config ahead = pipelined(1);
  ahead.set("l2_prefetch", 1);
  Wisdom wisdom;  // two times of its own, 0.9 times those of the other prefetch
  for (const std::int64_t context : {1024, 4096})
    for (const std::int64_t batch : {10, 14, 20, 28, 40, 56})
      wisdom.put(timed(decode_problem(batch, context), {pipelined(1)}, in_waves));
  for (const std::int64_t batch : {16, 24})
    wisdom.put(timed(decode_problem(batch, 2048), {ahead},
                     [](const Problem& p, const Config& c) { return 0.9 * in_waves(p, c); }));
  const auto chosen = predict_here(wisdom, decode_problem(20, 3000));
  ASSERT_TRUE(chosen);
  EXPECT_EQ(chosen->config["l2_prefetch"], 1);
}

TEST(FitPredictor, UsesTimesOfOtherFeaturesIfMemoryBound) {
  const auto with_append = [](std::int64_t batch) {
    Problem problem = decode_problem(batch, 2048);
    problem.dims.set("append", 1, "yes");
    return problem;
  };
  Wisdom wisdom;  // one time with append
  for (const std::int64_t batch : {10, 14, 20, 28, 40, 56})
    wisdom.put(timed(decode_problem(batch, 2048), {pipelined(1)}, in_waves));
  EXPECT_FALSE(predict_here(wisdom, with_append(20)));
  wisdom.put(timed(with_append(16), {pipelined(1)}, in_waves));
  const auto chosen = predict_here(wisdom, with_append(20));
  ASSERT_TRUE(chosen);
  EXPECT_NEAR(chosen->time_us, in_waves(with_append(20), pipelined(1)), 0.05 * chosen->time_us);
}

TEST(FitPredictor, ManyFarTimesDoNotOutweighNearOnes) {
  Wisdom wisdom;  // long contexts, which take 1.5 times as long
  for (std::int64_t batch = 8; batch < 68; ++batch) {
    for (const std::int64_t context : {1536, 2048, 2560, 3584})
      wisdom.put(timed(decode_problem(batch, context), {pipelined(1)}, in_waves));
    for (const std::int64_t context : {30720, 40960, 51200, 61440})
      wisdom.put(timed(decode_problem(batch, context), {pipelined(1)},
                       [](const Problem& p, const Config& c) { return 1.5 * in_waves(p, c); }));
  }
  const Problem problem = decode_problem(20, 2304);
  const auto chosen = predict_here(wisdom, problem);
  ASSERT_TRUE(chosen);
  EXPECT_NEAR(chosen->time_us, in_waves(problem, pipelined(1)), 1e-3 * chosen->time_us);
}

TEST(FitPredictor, IgnoresInvalidTimes) {
  Wisdom wisdom = tuned({pipelined(1), pipelined(2)}, in_waves);
  const Problem problem = decode_problem(16, 2048);
  const auto none_hold = [](const Winner&, const VariantTimes&) { return false; };
  EXPECT_FALSE(
      FitPredictor({wisdom, find_op(problem.op), problem.dtype, h200(), none_hold}).predict(problem));
  Wisdom renamed;
  for (Winner winner : wisdom.winners()) {
    winner.times[0].parameters[1] = "threads";
    renamed.put(winner);
  }
  EXPECT_FALSE(predict_here(renamed, problem)) << "a parameter that the variant no longer has";
}

TEST(FitPredictor, ChoosesNothingThatBreaksAConstraint) {
  Wisdom wisdom;  // 33 splits are for few sequences
  for (const std::int64_t context : {4096, 8192, 16384, 32768, 65536, 131072})
    wisdom.put(
        timed(decode_problem(1, context), {pipelined(33)}, [](const Problem&, const Config&) { return 5; }));
  EXPECT_TRUE(predict_here(wisdom, decode_problem(1, 12000)));
  EXPECT_FALSE(predict_here(wisdom, decode_problem(8, 12000)));
}

}  // namespace
}  // namespace warptune
