// Paged, quantized and windowed caches and the layouts of K: complete models against transformers, fp64 and
// runs with a plain cache.
#include "harness/llama/kv_format.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "harness/core/error.h"
#include "harness/llama/golden.h"
#include "harness/llama/kv_cache.h"
#include "harness/llama/prompts.h"
#include "tests/llama/reference_llama.h"
#include "tests/llama/small_models.h"
#include "variants/table.h"

namespace warptune {
namespace {

using testing::golden_run_name, testing::GoldenRun, testing::kGoldens, testing::tiny;

namespace fs = std::filesystem;

const KvFormat kInt8{.quantized = DType::int8}, kFp8{.quantized = DType::fp8}, kDsx{.k_layout = KLayout::dsx},
    kPagedDsx{.page_size = 16, .k_layout = KLayout::dsx},
    kInt8Dsx{.quantized = DType::int8, .k_layout = KLayout::dsx},
    kInt8PagedDsx{.quantized = DType::int8, .page_size = 32, .k_layout = KLayout::dsx};

/// A checkpoint with its golden on a device.
struct GoldenModel {
  explicit GoldenModel(const std::string& name, const std::string& where = "host", DType dtype = DType::fp32)
      : device(open_device(where)),
        folder(fs::path(TEST_DATA) / "golden" / name),
        config(read_model_config(folder / "config.json")),
        golden(read_golden(folder / "golden.safetensors")),
        weights(load_weights(*device, config, dtype, folder)) {}

  Agreement check(const KvFormat& kv, bool fused, bool naive, const Golden& against) {
    PlanBook book(ops(), *device, {.naive = naive});
    Model model(*device, config, weights, book,
                {.batch = static_cast<int>(golden.prompts.size()),
                 .capacity = 80,
                 .max_steps = golden.steps(),
                 .fuse = {.append = fused},
                 .kv = kv});
    return check_golden(model, against);
  }

  std::unique_ptr<Device> device;
  fs::path folder;
  ModelConfig config;
  Golden golden;
  Weights weights;
};

/// The same prompts and tokens with the logits of the fp64 reference.
Golden windowed(const GoldenModel& c, int window) {
  Golden golden = c.golden;
  golden.logits.clear();
  for (std::size_t b = 0; b < golden.prompts.size(); ++b) {
    std::vector<int> ids = golden.prompts[b];
    const std::size_t first = ids.size() - 1;
    ids.insert(ids.end(), golden.tokens[b].begin(), golden.tokens[b].end() - 1);
    const auto rows = testing::reference_logits(c.config, c.weights, ids, window);
    for (std::size_t t = first; t < rows.size(); ++t)
      for (const double x : rows[t]) golden.logits.push_back(static_cast<float>(x));
  }
  return golden;
}

void expect_golden(const std::string& name, const std::string& where, DType dtype, const KvFormat& kv) {
  GoldenModel checkpoint(name, where, dtype);
  for (const bool fused : {false, true}) {
    SCOPED_TRACE(name + " " + std::string(name_of(dtype)) + kv.suffix() + (fused ? " fused" : ""));
    const Agreement agreement = checkpoint.check(kv, fused, false, checkpoint.golden);
    EXPECT_TRUE(agreement.ok()) << agreement.summary();
  }
}

TEST(KvFormat, PagedRunsAgreeWithTransformers) {
  for (const char* name : kGoldens)
    for (const int page : {16, 64}) expect_golden(name, "host", DType::fp32, {.page_size = page});
  expect_golden("gqa", "host", DType::bf16, {.page_size = 16});
  for (const char* name : {"mistral", "qwen3"}) expect_golden(name, "host", DType::fp32, {.page_size = 16});
}

TEST(KvFormat, QuantizedRunsAgreeWithTransformersWithinTheirNoise) {
  for (const char* name : kGoldens)
    for (const DType dtype : {DType::fp32, DType::bf16})
      for (const DType stored : {DType::int8, DType::fp8})
        expect_golden(name, "host", dtype, {.quantized = stored});
  expect_golden("gqa", "host", DType::fp32, {.quantized = DType::int8, .page_size = 32});
  for (const char* name : {"mistral", "qwen3"})
    expect_golden(name, "host", DType::fp32, {.quantized = DType::int8});
}

TEST(KvFormat, BlockedKeysAgreeWithTransformers) {
  for (const char* name : kGoldens)
    for (const KvFormat& kv : {kDsx, kPagedDsx, kInt8Dsx, kInt8PagedDsx})
      expect_golden(name, "host", DType::fp32, kv);
  for (const KvFormat& kv : {kDsx, kPagedDsx}) expect_golden("gqa", "host", DType::bf16, kv);
}

TEST(KvFormat, TheReferenceAgreesWithTransformers) {
  for (const char* name : kGoldens) {
    const GoldenModel checkpoint(name);
    const Golden golden = windowed(checkpoint, 0);
    ASSERT_EQ(golden.logits.size(), checkpoint.golden.logits.size());
    Agreement agreement(DType::fp32);
    for (int b = 0; b < static_cast<int>(golden.prompts.size()); ++b)
      for (int step = 0; step <= golden.steps(); ++step)
        agreement.add(golden.row(b, step), checkpoint.golden.row(b, step), b, step);
    EXPECT_TRUE(agreement.ok()) << name << ": " << agreement.summary();
  }
}

/// Two runs with independent rounding errors differ by sqrt(2) times the error of one.
TEST(Agreement, TwoRunsMayDifferMoreThanARunFromTheReference) {
  std::vector<float> want(1000), got(1000);
  for (std::size_t i = 0; i < want.size(); ++i) want[i] = i % 2 == 0 ? 1.0f : -1.0f;
  want[0] = 3;  // leads by more than noise
  const auto rows_ok = [&](float relative, ComparedWith with) {
    for (std::size_t i = 0; i < want.size(); ++i) got[i] = want[i] * (1 + relative);
    Agreement agreement(DType::bf16, {}, with);
    agreement.add(got, want, 0, 0);
    EXPECT_NEAR(agreement.worst_row(), relative, 1e-4);
    return agreement.rows_ok();
  };
  EXPECT_TRUE(rows_ok(0.039f, ComparedWith::reference));
  EXPECT_FALSE(rows_ok(0.041f, ComparedWith::reference));
  EXPECT_TRUE(rows_ok(0.056f, ComparedWith::run));
  EXPECT_FALSE(rows_ok(0.057f, ComparedWith::run));
}

TEST(KvFormat, WindowsAgreeWithTheReference) {
  for (const char* name : {"gqa", "tied"}) {
    GoldenModel checkpoint(name);
    for (const int window : {1, 16, 61}) {
      const Golden golden = windowed(checkpoint, window);
      for (const KvFormat& kv : {KvFormat{.window = window}, KvFormat{.page_size = 16, .window = window}})
        for (const bool naive : {false, true}) {
          const Agreement agreement = checkpoint.check(kv, !naive, naive, golden);
          EXPECT_TRUE(agreement.ok()) << name << kv.suffix() << ": " << agreement.summary();
        }
      EXPECT_FALSE(checkpoint.check({}, true, false, golden).ok())
          << "the window of " << window << " matters";
    }
    const KvFormat all{.quantized = DType::int8, .page_size = 16, .window = 16};
    const Agreement agreement = checkpoint.check(all, true, false, windowed(checkpoint, 16));
    EXPECT_TRUE(agreement.ok()) << agreement.summary();
  }
}

class GpuKvFormat : public ::testing::TestWithParam<GoldenRun> {};
TEST_P(GpuKvFormat, RunsAgreeWithTransformersWithinTheirNoise) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
  const auto [name, dtype] = GetParam();
  for (const KvFormat& kv :
       {KvFormat{.page_size = 16}, kInt8, kFp8, KvFormat{.quantized = DType::int8, .page_size = 64},
        KvFormat{.quantized = DType::fp8, .page_size = 16, .window = 80}, kDsx, kPagedDsx, kInt8Dsx,
        kInt8PagedDsx})
    expect_golden(name, "cuda:0", dtype, kv);
}
INSTANTIATE_TEST_SUITE_P(NormedHeads, GpuKvFormat,
                         ::testing::Combine(::testing::Values("qwen3"),
                                            ::testing::Values(DType::fp32, DType::bf16)),
                         golden_run_name);
INSTANTIATE_TEST_SUITE_P(Goldens, GpuKvFormat,
                         ::testing::Combine(::testing::ValuesIn(kGoldens),
                                            ::testing::Values(DType::fp32, DType::bf16)),
                         golden_run_name);

TEST(KvFormat, GpuWindowsAgreeWithTheReference) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
  for (const char* name : {"gqa", "tied"}) {
    const Golden golden = windowed(GoldenModel(name), 16);
    for (const DType dtype : {DType::fp32, DType::bf16}) {
      GoldenModel checkpoint(name, "cuda:0", dtype);
      for (const KvFormat& kv : {KvFormat{.window = 16}, KvFormat{.page_size = 16, .window = 16},
                                 KvFormat{.quantized = DType::int8, .page_size = 32, .window = 16}}) {
        const Agreement agreement = checkpoint.check(kv, true, false, golden);
        EXPECT_TRUE(agreement.ok()) << name << kv.suffix() << ": " << agreement.summary();
      }
    }
  }
}

/// The logits of a prefill and of every step after it.
std::vector<std::vector<float>> logits_of(const KvFormat& kv, const ModelConfig& config,
                                          const std::vector<std::vector<int>>& prompts, int steps,
                                          int capacity, bool twice = false) {
  const auto device = open_device("host");
  const Weights weights = random_weights(*device, config, DType::fp32, 3);
  PlanBook book(ops(), *device, {});
  Model model(
      *device, config, weights, book,
      {.batch = static_cast<int>(prompts.size()), .capacity = capacity, .max_steps = steps, .kv = kv});
  if (twice) model.prefill(prompts);
  model.prefill(prompts);
  std::vector<std::vector<float>> logits = {model.logits()};
  for (int i = 0; i < steps; ++i) {
    model.step();
    logits.push_back(model.logits());
  }
  return logits;
}

TEST(KvFormat, PagesAndWideWindowsChangeNoBit) {
  const auto prompts = random_prompts(3, std::vector{1, 15, 62}, tiny().vocab, 5);
  const auto plain = logits_of({}, tiny(), prompts, 20, 96);  // crosses pages and the bucket of 64
  for (const int page : {16, 32, 256})
    EXPECT_EQ(logits_of({.page_size = page}, tiny(), prompts, 20, 96), plain);
  EXPECT_EQ(logits_of({.page_size = 16}, tiny(), prompts, 20, 96, true), plain)
      << "pages are allocated again";
  EXPECT_EQ(logits_of({.window = 82}, tiny(), prompts, 20, 96), plain);
  EXPECT_EQ(logits_of({.page_size = 16, .window = 512}, tiny(), prompts, 20, 96), plain);
  EXPECT_NE(logits_of({.window = 81}, tiny(), prompts, 20, 96), plain);
}

TEST(KvFormat, QuantizedPagesChangeNoBit) {
  const auto prompts = random_prompts(2, std::vector{9, 40}, tiny().vocab, 5);
  for (const KvFormat& kv : {kInt8, kFp8}) {
    KvFormat paged = kv;
    paged.page_size = 16;
    EXPECT_EQ(logits_of(paged, tiny(), prompts, 12, 64), logits_of(kv, tiny(), prompts, 12, 64));
  }
}

TEST(KvFormat, BlockedKeysChangeNoBit) {
  const auto prompts = random_prompts(3, std::vector{1, 15, 62}, tiny().vocab, 5);
  const auto of = [&](const KvFormat& kv) { return logits_of(kv, tiny(), prompts, 20, 96); };
  const auto plain = of({});
  for (const KvFormat& kv : {kDsx, kPagedDsx}) EXPECT_EQ(of(kv), plain) << kv.suffix();
  EXPECT_EQ(of({.window = 40, .k_layout = KLayout::dsx}), of({.window = 40}));
  const auto int8 = of(kInt8);
  for (const KvFormat& kv : {kInt8Dsx, kInt8PagedDsx}) EXPECT_EQ(of(kv), int8) << kv.suffix();
}

// With 131072 columns the activations of a token are so large that 300 tokens need two chunks.
TEST(KvFormat, PromptsAttendToUnroundedKeysEvenIfSplit) {
  ModelConfig wide = tiny();
  wide.hidden = 16, wide.head_dim = 8, wide.q_heads = 2, wide.kv_heads = 1, wide.intermediate = 131072;
  const auto prompts = random_prompts(1, std::vector{300}, wide.vocab, 5);
  const auto plain = logits_of({}, wide, prompts, 1, 320), int8 = logits_of(kInt8, wide, prompts, 1, 320);
  EXPECT_EQ(int8[0], plain[0]);
  EXPECT_NE(int8[1], plain[1]);
  EXPECT_EQ(logits_of({.page_size = 16}, wide, prompts, 1, 320), plain);
  const std::int64_t lengths[] = {300};
  EXPECT_EQ(Prefill::cache_bytes(tiny(), DType::fp32, kInt8, lengths), 2 * 300 * 2 * 16 * 4)
      << "of one layer";
  EXPECT_EQ(Prefill::cache_bytes(wide, DType::fp32, kInt8, lengths), 2 * 2 * 300 * 8 * 4) << "of both";
  EXPECT_EQ(Prefill::cache_bytes(wide, DType::fp32, {.page_size = 16}, lengths), 0);
}

TEST(KvFormat, BytesCountCodesAndScales) {
  const ModelConfig c = tiny();  // 2 layers of 2 heads of 16
  EXPECT_EQ(KvCache::bytes(c, DType::bf16, {}, 2, 3, 100), 2 * 2 * 3 * 100 * 2 * 32);
  EXPECT_EQ(KvCache::bytes(c, DType::bf16, kInt8, 2, 3, 100), 2 * 2 * 3 * 100 * 2 * (16 + 4));
  EXPECT_EQ(KvCache::bytes(c, DType::bf16, {.page_size = 64}, 1, 3, 100), 2 * 3 * 128 * 2 * 32 + 3 * 2 * 4);
}

TEST(KvFormat, SuffixListsNonDefaultSettings) {
  EXPECT_EQ(KvFormat{}.suffix(), "");
  EXPECT_EQ((KvFormat{.quantized = DType::int8, .page_size = 16, .window = 1024}).suffix(),
            "+kv=int8+page=16+window=1024");
  EXPECT_EQ(kPagedDsx.suffix(), "+page=16+k_layout=dsx");
  for (const char* plan_set : {"tuned+kv=int8", "tuned+page=16", "tuned+window=8", "tuned+k_layout=dsx",
                               "tuned+top_k=50", "tuned+mean_context=70"})
    EXPECT_FALSE(is_plain_step(plan_set)) << plan_set;
  EXPECT_TRUE(is_plain_step("tuned+2near"));
}

TEST(KvFormat, ASuffixIsReadBack) {
  for (const KvFormat& format :
       {KvFormat{}, KvFormat{.quantized = DType::fp8}, KvFormat{.quantized = DType::int8, .page_size = 16},
        kPagedDsx, KvFormat{.window = 1024, .k_layout = KLayout::dsx}}) {
    EXPECT_EQ(parse_kv_suffix(format.suffix()), format) << format.suffix();
    const std::string suffix = format.suffix();  // a dim of a step has it without the first '+'
    EXPECT_EQ(parse_kv_suffix(suffix.substr(suffix.empty() ? 0 : 1)), format) << suffix;
  }
  for (const char* wrong : {"kv", "kv=int8+pages=16", "page=x", "kv=bf17", "+page=16+kv=int8", "k_layout=sd"})
    EXPECT_THROW(parse_kv_suffix(wrong), InputError) << wrong;
}

TEST(PageAllocator, AllocatesEveryPageOnceInRandomOrder) {
  PageAllocator pages(64);
  std::vector<int> taken;
  for (int i = 0; i < 64; ++i) taken.push_back(pages.take());
  EXPECT_EQ(std::set<int>(taken.begin(), taken.end()).size(), 64u);
  EXPECT_FALSE(std::ranges::is_sorted(taken));
  EXPECT_THROW(pages.take(), ResourceError);
  pages.give_back(taken[5]);
  EXPECT_EQ(pages.free(), 1);
  EXPECT_EQ(pages.take(), taken[5]);
}

}  // namespace
}  // namespace warptune
