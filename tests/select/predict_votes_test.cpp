#include "harness/select/predict_votes.h"

#include <gtest/gtest.h>

#include "harness/core/space.h"
#include "tests/attention_times.h"

namespace warptune {
namespace {
using testing::decode_problem;
using testing::h200;
using testing::pipelined;
using testing::timed;

bool all_hold(const Winner&, const VariantTimes&) { return true; }

std::optional<Prediction> predict_here(const Wisdom& wisdom, const Problem& problem) {
  return VotePredictor({wisdom, find_op(problem.op), problem.dtype, h200(), all_hold}).predict(problem);
}

Problem linear(std::int64_t tokens, std::int64_t in, std::int64_t out, std::int64_t bias = 0) {
  Assignment dims{{"tokens", tokens}, {"in", in}, {"out", out}};
  dims.set("bias", bias, bias ? "yes" : "no");
  return find_op("linear").op.problem(dims, DType::bf16);
}

Problem rms_norm(std::int64_t tokens, std::int64_t hidden) {
  return find_op("rms_norm").op.problem(Assignment{{"tokens", tokens}, {"hidden", hidden}}, DType::bf16);
}

Config config(const std::string& op, const std::string& variant, const std::string& text) {
  return parse_config(find_op(op).variant(variant), text);
}

/// A configuration of gemv_vectorized.
Config gemv(std::int64_t rows, std::int64_t unroll) {
  return {{"warps", 8}, {"warps_per_row", 2}, {"rows", rows}, {"unroll", unroll}, {"pdl", 1}};
}

/// Times of configurations of one variant, in their order.
using Us = std::vector<std::pair<Config, double>>;

Winner recorded(const Problem& problem, const Us& us, const std::string& variant) {
  std::vector<Config> configs;
  for (const auto& [c, time] : us) configs.push_back(c);
  return timed(
      problem, configs,
      [&](const Problem&, const Config& wanted) {
        for (const auto& [c, time] : us)
          if (c == wanted) return time;
        return 0.0;
      },
      variant);
}

/// A winner with times of two variants.
Winner recorded(const Problem& problem, const Us& us, const std::string& variant, const Us& others,
                const std::string& other) {
  Winner winner = recorded(problem, us, variant);
  winner.times.push_back(recorded(problem, others, other).times[0]);
  return winner;
}

TEST(VotePredictor, PredictsNothingWithoutTimes) {
  EXPECT_FALSE(predict_here({}, linear(1, 4096, 4096)));
  Wisdom wisdom;
  wisdom.put(recorded(linear(1, 4096, 4096), {{gemv(2, 2), 10}}, "gemv_vectorized"));
  EXPECT_FALSE(predict_here(wisdom, rms_norm(1, 4096))) << "another op";
  Problem other = linear(1, 4096, 5120);
  EXPECT_TRUE(predict_here(wisdom, other));
  other.dtype = DType::fp16;
  EXPECT_FALSE(predict_here(wisdom, other)) << "another dtype";
}

TEST(VotePredictor, IgnoresTheProblemItself) {
  const Problem problem = linear(1, 4096, 4096);
  Wisdom wisdom;
  wisdom.put(recorded(problem, {{gemv(2, 2), 10}, {gemv(4, 2), 20}}, "gemv_vectorized"));
  EXPECT_FALSE(predict_here(wisdom, problem));
  wisdom.put(recorded(linear(1, 4096, 8192), {{gemv(2, 2), 20}, {gemv(4, 2), 10}}, "gemv_vectorized"));
  EXPECT_EQ(predict_here(wisdom, problem)->config, gemv(4, 2));
}

TEST(VotePredictor, IgnoresStaleTimes) {
  Wisdom wisdom;
  wisdom.put(recorded(linear(1, 4096, 4096), {{gemv(2, 2), 10}}, "gemv_vectorized"));
  const auto none_hold = [](const Winner&, const VariantTimes&) { return false; };
  const Problem problem = linear(1, 4096, 5120);
  EXPECT_FALSE(VotePredictor({wisdom, find_op("linear"), DType::bf16, h200(), none_hold}).predict(problem));
}

TEST(VotePredictor, SkipsIllegalConfigurations) {
  const Config four = gemv(4, 2), two = gemv(2, 2);  // rows * tokens <= 16
  Wisdom wisdom;
  wisdom.put(recorded(linear(4, 4096, 4096), {{four, 10}, {two, 12}}, "gemv_vectorized"));
  EXPECT_EQ(predict_here(wisdom, linear(3, 4096, 4096))->config, four);
  EXPECT_EQ(predict_here(wisdom, linear(8, 4096, 4096))->config, two);
  EXPECT_FALSE(predict_here(wisdom, linear(16, 4096, 4096))) << "tokens <= 8";
}

TEST(VotePredictor, NearerProblemsWeighMore) {
  const auto narrow = config("rms_norm", "vectorized", "block=128,rows=1,vec=4,cache_hint=none,pdl=1"),
             wide = config("rms_norm", "vectorized", "block=512,rows=1,vec=4,cache_hint=none,pdl=1");
  Wisdom wisdom;
  wisdom.put(recorded(rms_norm(1, 2048), {{narrow, 1.0}, {wide, 1.2}}, "vectorized"));
  wisdom.put(recorded(rms_norm(1, 8192), {{narrow, 2.4}, {wide, 2.0}}, "vectorized"));
  EXPECT_EQ(predict_here(wisdom, rms_norm(1, 3072))->config, narrow);
  EXPECT_EQ(predict_here(wisdom, rms_norm(1, 6144))->config, wide);
  EXPECT_EQ(predict_here(wisdom, rms_norm(2, 2048))->config, narrow);
}

TEST(VotePredictor, OnlySixNeighborsVote) {
  const Config near = gemv(2, 2), far = gemv(4, 2);
  Wisdom wisdom;
  for (const std::int64_t out : {3072, 3584, 4608, 5120, 6144, 6656})
    wisdom.put(recorded(linear(1, 4096, out), {{near, 10}, {far, 10.1}}, "gemv_vectorized"));
  for (std::int64_t out = 65536; out < 65536 + 20 * 512; out += 512)  // would outvote the near ones
    wisdom.put(recorded(linear(1, 4096, out), {{near, 400}, {far, 100}}, "gemv_vectorized"));
  EXPECT_EQ(predict_here(wisdom, linear(1, 4096, 4096))->config, near);
}

TEST(VotePredictor, UntimedConfigurationsDoNotBeatTimedOnes) {
  // gemv(4, 2) wins far away; near the problem it is not among the recorded times.
  Wisdom wisdom;
  wisdom.put(recorded(linear(1, 4096, 4096), {{gemv(2, 2), 10}, {gemv(2, 4), 10.1}}, "gemv_vectorized"));
  wisdom.put(recorded(linear(1, 4096, 16384), {{gemv(4, 2), 40}, {gemv(2, 2), 41}}, "gemv_vectorized"));
  EXPECT_EQ(predict_here(wisdom, linear(1, 4096, 5120))->config, gemv(2, 2));
  EXPECT_EQ(predict_here(wisdom, linear(1, 4096, 14336))->config, gemv(4, 2));
}

TEST(VotePredictor, AVariantIsAsGoodAsItsBestTime) {
  const Config async{{"grid_blocks", 528}, {"warps", 16}, {"stages", 4}, {"unroll", 1}, {"pdl", 1}};
  Wisdom wisdom;  // gemv_cp_async is slow nearby, with another configuration
  Config other = async;
  other.set("stages", 3);
  wisdom.put(
      recorded(linear(1, 4096, 4096), {{gemv(2, 2), 10}}, "gemv_vectorized", {{other, 15}}, "gemv_cp_async"));
  wisdom.put(
      recorded(linear(1, 4096, 8192), {{gemv(2, 2), 21}}, "gemv_vectorized", {{async, 20}}, "gemv_cp_async"));
  EXPECT_EQ(predict_here(wisdom, linear(1, 4096, 5120))->variant->name, "gemv_vectorized");
  EXPECT_EQ(predict_here(wisdom, linear(1, 4096, 8704))->variant->name, "gemv_cp_async");
}

TEST(VotePredictor, LabelsAddDistance) {
  Wisdom wisdom;
  wisdom.put(recorded(linear(1, 4096, 4096, 1), {{gemv(2, 2), 10}, {gemv(4, 2), 12}}, "gemv_vectorized"));
  wisdom.put(recorded(linear(1, 4096, 8192), {{gemv(2, 2), 24}, {gemv(4, 2), 20}}, "gemv_vectorized"));
  EXPECT_EQ(predict_here(wisdom, linear(1, 4096, 4096))->config, gemv(4, 2)) << "a bias is farther";
  EXPECT_EQ(predict_here(wisdom, linear(1, 4096, 4608, 1))->config, gemv(2, 2));
}

TEST(VotePredictor, ChoosesRopeAppend) {
  const auto problem = [](std::int64_t tokens) {
    return find_op("rope_append")
        .op.problem(Assignment{{"tokens", tokens}, {"q_heads", 32}, {"kv_heads", 8}, {"head_dim", 128}},
                    DType::bf16);
  };
  const auto one = config("rope_append", "vectorized",
                          "block=64,vec=4,heads_per_thread=1,cache_hint=streaming,pdl=1"),
             two = config("rope_append", "vectorized",
                          "block=64,vec=4,heads_per_thread=2,cache_hint=streaming,pdl=1");
  Wisdom wisdom;
  wisdom.put(recorded(problem(4), {{one, 1}, {two, 1.1}}, "vectorized"));
  wisdom.put(recorded(problem(256), {{one, 2.2}, {two, 2}}, "vectorized"));
  EXPECT_EQ(predict_here(wisdom, problem(8))->config, one);
  EXPECT_EQ(predict_here(wisdom, problem(128))->config, two);
}

TEST(VotePredictor, TheTimeLiesBetweenThoseOfTheNeighbors) {
  Wisdom wisdom;
  wisdom.put(recorded(linear(1, 4096, 4096), {{gemv(2, 2), 10}}, "gemv_vectorized"));
  wisdom.put(recorded(linear(1, 4096, 16384), {{gemv(2, 2), 40}}, "gemv_vectorized"));
  EXPECT_NEAR(predict_here(wisdom, linear(1, 4096, 8192))->time_us, 20, 1);
}

TEST(MakePredictor, AttentionFallsBackToVotes) {
  Wisdom wisdom;  // two times: too few for a fit
  for (const std::int64_t batch : {8, 32})
    wisdom.put(
        recorded(decode_problem(batch, 4096), {{pipelined(1), 10}, {pipelined(2), 12}}, "mma_pipelined"));
  const Problem problem = decode_problem(16, 4096);
  const RecordedTimes times{wisdom, find_op(problem.op), problem.dtype, h200(), all_hold};
  const auto chosen = make_predictor(times)->predict(problem);
  ASSERT_TRUE(chosen);
  EXPECT_EQ(chosen->variant->name, "mma_pipelined");
  EXPECT_EQ(chosen->config, pipelined(1));
}

}  // namespace
}  // namespace warptune
