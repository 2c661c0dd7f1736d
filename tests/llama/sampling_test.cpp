// Sampling against transformers' logits processors (scripts/make_sampling_golden.py).
#include "harness/llama/sampling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <numeric>

#include "harness/core/error.h"
#include "harness/core/philox.h"
#include "harness/llama/model.h"
#include "harness/llama/model_problems.h"
#include "harness/llama/safetensors.h"
#include "kernels/top_k/args.h"
#include "tests/llama/small_models.h"
#include "variants/table.h"

namespace warptune {
namespace {

namespace fs = std::filesystem;

template <class T>
struct Rows {
  std::vector<T> values;
  std::size_t rows, columns;
  std::span<const T> row(std::size_t i) const { return std::span(values).subspan(i * columns, columns); }
};

template <class T>
Rows<T> rows(const SafetensorsFile& file, const std::string& name) {
  const StoredTensor& tensor = file.tensors().at(name);
  Rows<T> matrix{std::vector<T>(tensor.data.size() / sizeof(T)), static_cast<std::size_t>(tensor.shape[0]),
                 static_cast<std::size_t>(tensor.shape[1])};
  std::memcpy(matrix.values.data(), tensor.data.data(), tensor.data.size());
  return matrix;
}

SafetensorsFile golden() { return SafetensorsFile(fs::path(TEST_DATA) / "sampling/golden.safetensors"); }

/// The ids before the padding.
std::vector<int> ids_of(std::span<const int> row) { return {row.begin(), std::ranges::find(row, -1)}; }

/// The tokens that u may sample from these probabilities, likeliest first: two where an fp32 sum may fall on
/// either side.
std::vector<int> sampled(std::span<const float> probabilities, double u) {
  std::vector<int> order(probabilities.size());
  std::iota(order.begin(), order.end(), 0);
  const auto p = [&](int id) { return static_cast<double>(probabilities[static_cast<std::size_t>(id)]); };
  std::ranges::stable_sort(order, [&](int a, int b) { return p(a) > p(b); });
  std::vector<int> ids;
  double cumulative = 0;
  for (const int id : order) {
    if (p(id) == 0) break;
    const double before = cumulative;
    cumulative += p(id);
    if (u > before - 1e-5 && u < cumulative + 1e-5) ids.push_back(id);
  }
  return ids;
}

/// One row of the golden, sampled 200 times.
void expect_samples(Device& device, bool naive, std::size_t row) {
  const SafetensorsFile file = golden();
  const auto settings = rows<float>(file, "settings"), logits = rows<float>(file, "logits"),
             probabilities = rows<float>(file, "probabilities");
  const std::vector<int> held = ids_of(rows<int>(file, "ids").row(row));
  const auto [k, p, min_p, penalty, temperature] =
      std::to_array<float, 5>({settings.row(row)[0], settings.row(row)[1], settings.row(row)[2],
                               settings.row(row)[3], settings.row(row)[4]});
  PlanBook book(ops(), device, {.naive = naive});
  const OpEntry& op = ops().find("top_k");
  const auto vocab = static_cast<std::int64_t>(logits.columns);
  const auto entry = book.get(op.op.problem(Assignment{{"batch", 1},
                                                       {"vocab", vocab},
                                                       {"k", static_cast<std::int64_t>(k)},
                                                       {"repetition_penalty", penalty != 1 ? 1 : 0},
                                                       {"min_p", min_p > 0 ? 1 : 0}},
                                            DType::fp32));
  const auto put = [&](Buffer& to, const void* from) {
    device.upload(to.data(), from, to.bytes(), device.stream());
  };
  Buffer on_device = device.allocate(logits.columns * sizeof(float)), ids = device.allocate(sizeof(int)),
         rng = device.allocate(16), seen = device.allocate((logits.columns + 31) / 32 * sizeof(unsigned));
  put(on_device, logits.row(row).data());
  std::vector<unsigned> words(seen.bytes() / sizeof(unsigned)), after(words);
  for (const int id : std::span(held).first(held.size() - 1))
    words[static_cast<std::size_t>(id / 32)] |= 1u << id % 32;
  put(seen, words.data());
  for (std::uint64_t step = 0; step < 200; ++step) {
    const std::uint64_t state[2] = {7, step};
    put(rng, state);
    put(ids, &held.back());
    const TopKArgs args{.logits = on_device.data(),
                        .rng = rng.as<unsigned long long>(),
                        .ids = ids.as<int>(),
                        .workspace = entry->workspace.data(),
                        .batch = 1,
                        .temperature = temperature,
                        .p = p,
                        .min_p = min_p};
    const PenalizedTopKArgs penalized{args, penalty, seen.as<unsigned>()};
    entry->plan->launch(penalty == 1 ? &args : &penalized, device.stream());
    int id = -1;
    device.download(&id, ids.data(), sizeof(id));
    const auto right = sampled(probabilities.row(row), philox_uniform(7, step, 0));
    EXPECT_NE(std::ranges::find(right, id), right.end())
        << "step " << step << ": " << id << ", not " << right[0];
  }
  if (penalty == 1) return;
  device.download(after.data(), seen.data(), seen.bytes());
  words[static_cast<std::size_t>(held.back() / 32)] |= 1u << held.back() % 32;
  EXPECT_EQ(after, words) << "the token fed last is held too";
}

void expect_all_samples(const char* where) {
  const auto device = open_device(where);
  for (const bool naive : {false, true})
    for (std::size_t row = 0; row < rows<float>(golden(), "settings").rows; ++row) {
      SCOPED_TRACE("case " + std::to_string(row) + (naive ? " naive" : ""));
      expect_samples(*device, naive, row);
    }
}

TEST(Sampling, TheSuffixNamesWhatThePlansDependOn) {
  EXPECT_EQ(parse_sampling("greedy").suffix(), "");
  EXPECT_EQ(parse_sampling("top_k=7,p=0.9,temperature=2").suffix(), "+top_k=7");
  EXPECT_EQ(parse_sampling("k=50,min_p=0.1,repetition_penalty=1.2").suffix(), "+top_k=50+min_p+penalty");
}

TEST(Sampling, MatchesTheProcessorsOfTransformers) { expect_all_samples("host"); }
TEST(GpuSampling, MatchesTheProcessorsOfTransformers) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
  expect_all_samples("cuda:0");
}

/// Prompts and generated tokens are penalized as transformers does, in replays of graphs and in launches.
void expect_penalized_tokens(const char* where) {
  const SafetensorsFile file = golden();
  const auto prompts = rows<int>(file, "prompts"), tokens = rows<int>(file, "tokens");
  const fs::path folder = fs::path(TEST_DATA) / "golden/gqa";
  const auto device = open_device(where);
  const ModelConfig config = read_model_config(folder / "config.json");
  const Weights weights = load_weights(*device, config, DType::fp32, folder);
  std::vector<std::vector<int>> given;
  for (std::size_t b = 0; b < prompts.rows; ++b) given.push_back(ids_of(prompts.row(b)));
  for (const bool graph : {true, false}) {
    PlanBook book(ops(), *device, {});
    Model model(*device, config, weights, book,
                {.batch = static_cast<int>(prompts.rows),
                 .capacity = 128,
                 .max_steps = static_cast<int>(tokens.columns) - 1,
                 .sampling = parse_sampling("top_k=1,repetition_penalty=1.3"),
                 .graph = graph});
    for (int again = 0; again < 2; ++again) {  // a second prefill forgets the tokens of the first run
      model.prefill(given);
      for (std::size_t i = 1; i < tokens.columns; ++i) model.step();
      const auto got = model.transcript();
      for (std::size_t b = 0; b < prompts.rows; ++b)
        EXPECT_TRUE(std::ranges::equal(got[b], tokens.row(b)))
            << "sequence " << b << (graph ? ", graph" : "");
    }
  }
}

TEST(Sampling, PenalizesPromptsAndGeneratedTokens) { expect_penalized_tokens("host"); }
TEST(GpuSampling, PenalizesPromptsAndGeneratedTokens) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
  expect_penalized_tokens("cuda:0");
}

TEST(Sampling, ForcedTokensAreHeldInsteadOfSampledOnes) {
  const auto device = open_device("host");
  const fs::path folder = fs::path(TEST_DATA) / "golden/gqa";
  const ModelConfig config = read_model_config(folder / "config.json");
  const Weights weights = load_weights(*device, config, DType::fp32, folder);
  PlanBook book(ops(), *device, {});
  // A penalty this far below 1 lifts the held tokens above all others.
  const ModelOptions options{.batch = 1,
                             .capacity = 64,
                             .max_steps = 2,
                             .sampling = parse_sampling("top_k=1,repetition_penalty=0.001")};
  Model forced(*device, config, weights, book, options), fed(*device, config, weights, book, options);
  int lifted = 0;
  for (int other = 20; other < 40; ++other) {
    forced.prefill(std::vector<std::vector<int>>{{5}});
    forced.force(std::vector{other});
    forced.step();
    fed.prefill(std::vector<std::vector<int>>{{5, other}});
    EXPECT_EQ(forced.ids(), fed.ids()) << other;
    lifted += forced.ids()[0] == other ? 1 : 0;
  }
  EXPECT_GT(lifted, 0);
}

TEST(Sampling, ReadsItsText) {
  const Sampling s =
      parse_sampling("top_k=40,p=0.9,min_p=0.05,repetition_penalty=1.1,temperature=0.8,seed=3");
  EXPECT_FALSE(s.greedy);
  EXPECT_EQ(s.k, 40);
  EXPECT_FLOAT_EQ(s.min_p, 0.05f);
  EXPECT_FLOAT_EQ(s.repetition_penalty, 1.1f);
  EXPECT_TRUE(s.penalizes());
  EXPECT_FALSE(parse_sampling("top_k=40").penalizes());
  EXPECT_EQ(s.seed, 3u);
  EXPECT_FLOAT_EQ(s.p, 0.9f);
  EXPECT_FLOAT_EQ(s.temperature, 0.8f);
  EXPECT_FALSE(parse_sampling("greedy").penalizes());
  EXPECT_TRUE(parse_sampling("greedy").greedy);
}

TEST(Sampling, HasTheDefaultsOfItsDocumentation) {
  const Sampling s = parse_sampling("seed=7");
  EXPECT_FALSE(s.greedy);
  EXPECT_EQ(s.k, 50);
  EXPECT_EQ(s.p, 1);
  EXPECT_EQ(s.min_p, 0);
  EXPECT_EQ(s.repetition_penalty, 1);
  EXPECT_EQ(s.temperature, 1);
  EXPECT_EQ(parse_sampling("top_k=3").seed, 1u);
}

std::string sampling_refusal(const std::string& text) {
  try {
    parse_sampling(text);
  } catch (const InputError& e) {
    return e.what();
  }
  return "accepted";
}

TEST(Sampling, TakesTheEndsOfEachRangeAndNothingBeyond) {
  for (const char* good : {"top_k=0", "top_k=1", "top_k=16777216", "p=1", "p=0.000001", "min_p=0", "min_p=1",
                           "repetition_penalty=0.001", "repetition_penalty=1000", "temperature=0.001",
                           "temperature=100", "seed=0", "seed=18446744073709551615"})
    EXPECT_EQ(sampling_refusal(good), "accepted") << good;
  for (const char* bad : {"top_k=-1", "top_k=16777217", "k=99999999999", "p=0", "p=1.01", "p=-0.5", "p=1e-7",
                          "min_p=1.01", "min_p=-0.1", "repetition_penalty=0", "repetition_penalty=0.0009",
                          "repetition_penalty=1001", "repetition_penalty=nan", "p=nan", "temperature=0",
                          "temperature=101", "temperature=inf", "seed=-1", "seed=18446744073709551616"}) {
    const std::string name(bad, std::string_view(bad).find('='));
    EXPECT_TRUE(sampling_refusal(bad).starts_with("--sampling: " + name + " is '"))
        << bad << ": " << sampling_refusal(bad);
  }
  EXPECT_EQ(sampling_refusal("p=0"), "--sampling: p is '0'; it must be a number from 1e-06 to 1");
  EXPECT_EQ(sampling_refusal("top_k=-1"),
            "--sampling: top_k is '-1'; it must be a number from 0 to 16777216");
}

TEST(Sampling, TextBesideANumberIsRefused) {
  for (const char* bad :
       {"best", "top_k=x", "top_k=5,q=1", "top_k=5x", "top_k=5.5", "top_k= 5", "p=0.9x", "p=0.9 ", "min_p=x",
        "min_p=", "seed=3.0", "top_k", "presence_penalty=1", "Greedy", "top_k=1,top_k=2"})
    EXPECT_NE(sampling_refusal(bad), "accepted") << bad;
}

TEST(Sampling, NoTopKMeansAllLogits) {
  const ModelConfig config = testing::tiny();
  const ModelProblems problems(ops(), config, DType::fp32);
  EXPECT_EQ(problems.top_k(1, 0)["k"], 97);
  EXPECT_EQ(problems.top_k(1, 1000)["k"], 97);
  EXPECT_EQ(problems.top_k(1, 50)["k"], 50);
  EXPECT_EQ(parse_sampling("top_k=0").suffix(), "+top_k=0");
}

}  // namespace
}  // namespace warptune
