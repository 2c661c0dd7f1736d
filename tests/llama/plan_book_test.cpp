#include "harness/llama/plan_book.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>

#include "harness/core/error.h"
#include "harness/llama/model_problems.h"
#include "harness/llama/prompts.h"
#include "harness/results/source_hash.h"
#include "tests/measure/forwarding_device.h"
#include "variants/table.h"

namespace warptune {
namespace {

Problem norm(std::int64_t tokens) {
  return find_op("rms_norm").op.problem(Assignment{{"tokens", tokens}, {"hidden", 64}}, DType::fp32);
}

struct Heard {
  std::vector<std::string> notes;
  std::function<void(const std::string&)> ear() {
    return [this](const std::string& note) { notes.push_back(note); };
  }
};

std::string sources_of(const Winner& winner) {
  return source_hash(Compiler(KernelSources(), {}), ops(), winner);
}

/// A winner with the current provenance.
Wisdom wisdom_of(const Problem& problem, const std::string& variant, Config config, double us = 1,
                 std::optional<std::string> hash = {}) {
  const auto device = open_device("host");
  const DeviceFacts& facts = device->facts();
  Wisdom wisdom({facts.name, facts.arch, facts.driver, facts.toolkit, "abc"});
  Winner winner{.problem = problem, .variant = variant, .config = std::move(config), .time_us = us};
  winner.source_hash = hash ? *hash : sources_of(winner);
  wisdom.put(winner);
  return wisdom;
}

TEST(PlanBook, TakesExactWisdomSilently) {
  const auto device = open_device("host");
  Heard heard;
  PlanBook book(ops(), *device,
                {.wisdom = wisdom_of(norm(4), "host_threaded", {{"threads", 1}}, 7),
                 .has_wisdom = true,
                 .tell = heard.ear()});
  const auto entry = book.get(norm(4));
  EXPECT_EQ(entry->variant, "host_threaded");
  EXPECT_EQ(entry->config["threads"], 1);
  EXPECT_EQ(book.get(norm(4)), entry) << "made once, shared";
  EXPECT_EQ(book.expected_us(norm(4)), 7.0);
  EXPECT_TRUE(heard.notes.empty());
  EXPECT_EQ(book.plan_set(), "tuned");
}

TEST(PlanBook, ReportsANearestPlanOnce) {
  const auto device = open_device("host");
  Heard heard;
  PlanBook book(ops(), *device,
                {.wisdom = wisdom_of(norm(4), "host_naive", {}), .has_wisdom = true, .tell = heard.ear()});
  EXPECT_EQ(book.get(norm(6))->variant, "host_naive");
  book.get(norm(6));
  ASSERT_EQ(heard.notes.size(), 1u);
  EXPECT_NE(heard.notes[0].find("nearest"), std::string::npos);
}

TEST(PlanBook, ProblemsWithFeaturesUseThePlainWinnerIfItFits) {
  const auto device = open_device("host");
  const Assignment dims = {{"batch", 1}, {"q_heads", 4}, {"kv_heads", 2}, {"head_dim", 16}, {"context", 256}};
  const auto problem = [&](const char* feature, std::int64_t value) {
    Assignment all = dims;
    all.set(feature, value);
    return find_op("attention_decode").op.problem(all, DType::fp32);
  };
  const Problem plain = find_op("attention_decode").op.problem(dims, DType::fp32);
  const auto book_of = [&](const Problem& tuned, Heard& heard) {
    return PlanBook(ops(), *device,
                    {.wisdom = wisdom_of(tuned, "host_naive", {}), .has_wisdom = true, .tell = heard.ear()});
  };
  Heard taken, refused, other;
  EXPECT_EQ(book_of(plain, taken).get(problem("page_size", 16))->variant, "host_naive");
  ASSERT_EQ(taken.notes.size(), 1u);
  EXPECT_NE(taken.notes[0].find("the winner of the nearest tuned problem, " + plain.key()),
            std::string::npos);
  EXPECT_EQ(book_of(plain, taken).expected_us(problem("page_size", 16)), 1.0);
  EXPECT_EQ(book_of(plain, taken).expected_us(problem("deterministic", 1)), std::nullopt);
  EXPECT_EQ(book_of(plain, refused).get(problem("deterministic", 1))->variant, "host_blocked");
  ASSERT_EQ(refused.notes.size(), 1u);
  EXPECT_NE(refused.notes[0].find("the wisdom is not used: 'host_naive'"), std::string::npos);
  // A winner of a paged problem is not used for a plain one.
  EXPECT_EQ(book_of(problem("page_size", 16), other).get(plain)->variant, "host_blocked");
  ASSERT_EQ(other.notes.size(), 1u);
  EXPECT_NE(other.notes[0].find("the wisdom has nothing near"), std::string::npos);
}

TEST(PlanBook, WisdomThatCannotRunFallsBackToADefault) {
  const auto device = open_device("host");
  for (const auto& [variant, config] : {std::pair<std::string, Config>{"gone", {}},
                                        {"host_threaded", {{"threads", 4096}}},
                                        {"host_threaded", {}}}) {
    Heard heard;
    PlanBook book(ops(), *device,
                  {.wisdom = wisdom_of(norm(4), variant, config), .has_wisdom = true, .tell = heard.ear()});
    EXPECT_EQ(book.get(norm(4))->variant, "host_threaded");
    EXPECT_EQ(heard.notes.size(), 1u);
  }
}

TEST(PlanBook, WisdomOfOtherSourcesIsRefusedUnlessAllowed) {
  const auto device = open_device("host");
  const Wisdom wisdom = wisdom_of(norm(4), "host_naive", {}, 7, "0123456789abcdef");
  Heard refused;
  PlanBook strict(ops(), *device, {.wisdom = wisdom, .has_wisdom = true, .tell = refused.ear()});
  EXPECT_EQ(strict.get(norm(4))->variant, "host_threaded") << "a default";
  EXPECT_EQ(strict.expected_us(norm(4)), std::nullopt);
  ASSERT_EQ(refused.notes.size(), 1u);
  EXPECT_EQ(refused.notes[0], norm(4).key() + ": the wisdom is not used: tuned on other code of its kernels");
  Heard used;
  PlanBook lenient(ops(), *device,
                   {.wisdom = wisdom, .has_wisdom = true, .stale = StaleCode::use, .tell = used.ear()});
  EXPECT_EQ(lenient.get(norm(4))->variant, "host_naive");
  EXPECT_EQ(used.notes, std::vector<std::string>{"the wisdom was tuned on other code of its kernels"});
}

TEST(PlanBook, AnotherToolkitIsReportedOnce) {
  const auto device = open_device("host");
  const DeviceFacts& facts = device->facts();
  Wisdom wisdom({facts.name, facts.arch, facts.driver, "9.2", "abc"});
  for (const int tokens : {4, 8})
    wisdom.put({.problem = norm(tokens),
                .variant = "host_naive",
                .source_hash = sources_of({.problem = norm(tokens), .variant = "host_naive"})});
  Heard heard;
  PlanBook book(ops(), *device, {.wisdom = wisdom, .has_wisdom = true, .tell = heard.ear()});
  EXPECT_EQ(book.get(norm(4))->variant, "host_naive");
  EXPECT_EQ(book.get(norm(8))->variant, "host_naive");
  ASSERT_EQ(heard.notes.size(), 1u);
  EXPECT_NE(heard.notes[0].find("tuned with toolkit 9.2"), std::string::npos) << heard.notes[0];
}

TEST(PlanBook, OverridesAndNaive) {
  const auto device = open_device("host");
  PlanBook naive(ops(), *device, {.naive = true});
  EXPECT_EQ(naive.get(norm(4))->variant, "host_naive");
  EXPECT_EQ(naive.plan_set(), "naive");
  PlanBook book(ops(), *device,
                {.overrides = {parse_plan_override(ops(), "rms_norm=host_threaded:threads=1")}});
  EXPECT_EQ(book.get(norm(4))->config["threads"], 1);
  EXPECT_EQ(book.plan_set().substr(0, 10), "overrides-");
  for (const char* text : {"rms_norm", "=x", "nope=naive", "rms_norm=nope", "rms_norm=host_threaded:block=1",
                           "rms_norm=host_threaded:threads=x"})
    EXPECT_THROW(parse_plan_override(ops(), text), InputError) << text;
}

TEST(PlanBook, PlanSetCountsTunedPlans) {
  const auto device = open_device("host");
  const Wisdom wisdom = wisdom_of(norm(4), "host_threaded", {{"threads", 1}});
  const Problem other =
      find_op("swiglu").op.problem(Assignment{{"tokens", 4}, {"intermediate", 64}}, DType::fp32);
  PlanBook book(ops(), *device, {.wisdom = wisdom, .has_wisdom = true});
  EXPECT_EQ(book.plan_set(), "default") << "no plan is made yet";
  book.get(norm(4));
  book.get(norm(6));
  EXPECT_EQ(book.plan_set(), "tuned+1near");
  EXPECT_TRUE(book.untuned().empty());
  book.get(other);
  EXPECT_EQ(book.plan_set(), "tuned+1near+1default");
  EXPECT_EQ(book.plan_sources(), "1 exact, 1 nearest, 1 default");
  EXPECT_EQ(book.untuned(), std::vector{other.key()});

  PlanBook quiet(ops(), *device, {.wisdom = wisdom, .has_wisdom = true});
  quiet.get(norm(4));
  quiet.get(other, true);
  EXPECT_EQ(quiet.plan_set(), "tuned") << "what is too small for a remark does not count";

  PlanBook refused(
      ops(), *device,
      {.wisdom = wisdom_of(norm(4), "host_naive", {}, 7, "0123456789abcdef"), .has_wisdom = true});
  refused.get(norm(4));
  EXPECT_EQ(refused.plan_set(), "default");
}

TEST(PlanBook, AnUnusedOverrideIsAnError) {
  const auto device = open_device("host");
  const auto error_of = [&](const std::string& text) -> std::string {
    PlanBook book(ops(), *device, {.overrides = {parse_plan_override(ops(), text)}});
    book.get(norm(4));
    try {
      book.require_overrides();
      return "no error";
    } catch (const InputError& e) {
      return e.what();
    }
  };
  EXPECT_EQ(error_of("rms_norm=host_threaded:threads=1"), "no error");
  EXPECT_EQ(
      error_of("rms_norm=vectorized"),
      "--variant rms_norm=vectorized is never taken: rms_norm[tokens=4,hidden=64,dtype=fp32]: 'vectorized' "
      "does not run on this device or with this dtype");
  EXPECT_NE(error_of("rms_norm=host_threaded:threads=4096").find("breaks"), std::string::npos);
  EXPECT_EQ(error_of("softmax=host_naive"),
            "--variant softmax=host_naive is never taken: no 'softmax' of this run is left to it");
}

/// A device without the memory for one of the variants.
class SmallDevice : public testing::ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  std::unique_ptr<Plan> prepare(const Variant& variant, const Problem& problem,
                                const Config& config) override {
    if (variant.name == "host_threaded") throw ResourceError("no memory");
    return real_->prepare(variant, problem, config);
  }
};

TEST(PlanBook, AnOverrideBeyondTheDeviceIsAnErrorWithItsProblem) {
  SmallDevice device(open_device("host"));
  PlanBook book(ops(), device,
                {.overrides = {parse_plan_override(ops(), "rms_norm=host_threaded:threads=1")}});
  EXPECT_NE(book.get(norm(4))->variant, "host_threaded");
  try {
    book.require_overrides();
    ADD_FAILURE() << "no error";
  } catch (const InputError& e) {
    EXPECT_STREQ(e.what(),
                 "--variant rms_norm=host_threaded:threads=1 is never taken: "
                 "rms_norm[tokens=4,hidden=64,dtype=fp32]: no memory");
  }
}

TEST(DecodeProblems, Fp16HasNoSplitNorm) {
  const std::vector<std::int64_t> contexts = {64};
  const auto splits = [&](DType dtype) {
    return std::ranges::any_of(
        decode_problems(ops(), preset("llama3.2-1b"), dtype, 8, contexts),
        [](const Problem& p) { return p.key().find("rms_scale") != std::string::npos; });
  };
  EXPECT_TRUE(splits(DType::bf16));
  EXPECT_FALSE(splits(DType::fp16));
}

TEST(DecodeProblems, FarPositionsHaveKernelsOfTheirOwn) {
  const ModelProblems of(ops(), preset("llama3.2-1b"), DType::bf16);
  EXPECT_EQ(of.rope_append(1, 1, 1 << 17)["start"], 0);
  EXPECT_EQ(of.rope_append(1, 1, (1 << 17) + 1)["start"], 1 << 17);
}

TEST(ModelProblems, ADecodeStepHasEveryOpOnce) {
  const std::vector<std::int64_t> contexts = {256, 4096};
  const auto problems = decode_problems(ops(), preset("llama2-7b"), DType::bf16, 1, contexts);
  const auto count = [&](const std::string& op) {
    return std::ranges::count_if(problems, [&](const Problem& p) { return p.op == op; });
  };
  EXPECT_EQ(count("linear"), 5 + 1 + 6 + 2);  // apart, with swiglu in gate_up, with the norms, with argmax
  EXPECT_EQ(count("attention_decode"), 4);    // two contexts, append fused or not
  for (const char* op :
       {"embedding", "rms_norm", "add_rms_norm", "rope_append", "swiglu", "argmax", "top_k", "advance"})
    EXPECT_EQ(count(op), 1) << op;
}

/// The search of a step tries norm and SwiGLU together and each alone.
TEST(ModelProblems, EachFusionOfAStepHasItsProblems) {
  const std::vector<std::int64_t> contexts = {512};
  for (const char* weights : {"same", "int4"})
    for (const int batch : {1, 2, 64}) {
      ModelConfig config = preset("llama3-8b");
      if (weights != std::string("same")) config = in_format(config, parse_weight_format(weights));
      std::set<std::string> keys;
      for (const Problem& p : decode_problems(ops(), config, DType::bf16, batch, contexts))
        keys.insert(p.key());
      const ModelProblems problems(ops(), config, DType::bf16, {});
      for (const bool swiglu : {false, true})
        for (const Fusion& fusion : {Fusion{.swiglu = swiglu}, Fusion{.norm = batch <= 2, .swiglu = swiglu},
                                     Fusion{.swiglu = swiglu, .split_norm = batch > 1}})
          for (const Problem& p : problems.layer_gemms(batch, fusion))
            EXPECT_TRUE(keys.contains(p.key())) << p.key();
    }
}

TEST(ModelProblems, OIsPartOfAttentionForOneSequenceOfASmallModel) {
  const std::vector<std::int64_t> contexts = {512};
  const auto with_o = [&](const char* model, int batch) {
    const auto problems = decode_problems(ops(), preset(model), DType::bf16, batch, contexts);
    return std::ranges::count_if(problems, [&](const Problem& p) {
      return p.key().find("hidden=2048") != std::string::npos && p.op == "attention_decode";
    });
  };
  EXPECT_EQ(with_o("tinyllama-1.1b", 1), 1);
  EXPECT_EQ(with_o("tinyllama-1.1b", 2), 0);
  EXPECT_EQ(with_o("llama2-7b", 1), 0);
}

TEST(ModelProblems, PrefillIsOneChunkWhereItFits) {
  const std::vector<std::int64_t> lengths = {512, 2048};
  const auto problems = prefill_problems(ops(), preset("llama3-8b"), DType::bf16, 1, lengths);
  const auto has = [&](const std::string& start) {
    return std::ranges::any_of(problems, [&](const Problem& p) { return p.key().starts_with(start); });
  };
  EXPECT_TRUE(has("attention_prefill[batch=1,q_len=512,kv_len=512"));
  EXPECT_TRUE(has("attention_prefill[batch=1,q_len=2048,kv_len=2048"));
  EXPECT_TRUE(has("linear[tokens=2048,in=4096,out=6144"));
  EXPECT_TRUE(has("linear[tokens=1,in=4096,out=128256"));
}

TEST(ModelProblems, IncludeTheCacheFormat) {
  const ModelProblems of(ops(), preset("llama3-8b"), DType::bf16,
                         {.quantized = DType::int8, .page_size = 16, .window = 1024});
  EXPECT_EQ(of.rope_append(1, 1, 64).key(),
            "rope_append[tokens=1,q_heads=32,kv_heads=8,head_dim=128,batch=1,style=half_split,scaling=none,"
            "bias=no,k_layout=sd,start=0,kv_dtype=int8,page_size=16,dtype=bf16]");
  const auto ends = [](const Problem& p, const std::string& end) { return p.key().ends_with(end); };
  EXPECT_TRUE(ends(of.attention_decode(1, 2048, true),
                   "kv_dtype=int8,kv_scale=token,page_size=16,window=1024,dtype=bf16]"));
  EXPECT_TRUE(ends(of.attention_decode(1, 1024, true), "kv_scale=token,page_size=16,dtype=bf16]"))
      << "a window that the context does not fill is none";
  const ModelProblems window(ops(), preset("llama3-8b"), DType::bf16, {.window = 1024});
  EXPECT_TRUE(ends(window.attention_prefill(1, 512, 2048, false), "uneven=no,window=1024,dtype=bf16]"));
  EXPECT_TRUE(ends(window.attention_prefill(1, 512, 1024, false), "uneven=no,dtype=bf16]"));
  const ModelProblems blocked(ops(), preset("llama3-8b"), DType::bf16, {.k_layout = KLayout::dsx});
  for (const Problem& p : {blocked.rope_append(1, 1, 64), blocked.attention_decode(1, 64, true),
                           blocked.attention_prefill(1, 512, 512, false)})
    EXPECT_EQ(p["k_layout"], 1) << p.key();
}

TEST(ModelProblems, TheFusedAppendGrowsTheta) {
  ModelConfig growing = preset("llama2-7b");
  growing.rope.kind = RopeKind::dynamic_ntk;
  const ModelProblems of(ops(), growing, DType::bf16);
  EXPECT_TRUE(of.attention_decode(1, 64, true).key().ends_with("scaling=dynamic_ntk,dtype=bf16]"));
  EXPECT_TRUE(of.attention_decode(1, 64, false).key().ends_with("bias=no,dtype=bf16]"));
  const ModelProblems llama3(ops(), preset("llama3.2-1b"), DType::bf16);
  EXPECT_TRUE(llama3.attention_decode(1, 64, true).key().ends_with("bias=no,dtype=bf16]"))
      << "only the table of frequencies is scaled";
}

TEST(ModelProblems, TheFusedAppendHasTheNormsOfHeads) {
  const ModelProblems of(ops(), preset("qwen3-8b"), DType::bf16);
  EXPECT_TRUE(of.attention_decode(1, 64, true).key().ends_with("qk_norm=yes,dtype=bf16]"));
  EXPECT_TRUE(of.attention_decode(1, 64, false).key().ends_with("bias=no,dtype=bf16]"));
}

TEST(ModelProblems, Buckets) {
  EXPECT_EQ(context_bucket(1), 64);
  EXPECT_EQ(context_bucket(64), 64);
  EXPECT_EQ(context_bucket(65), 128);
  EXPECT_EQ(context_bucket(4096), 4096);
}

TEST(ModelProblems, ChunksCoverEveryPromptOnce) {
  const ModelConfig& c = preset("llama2-7b");
  const std::vector<std::int64_t> lengths = {100, 1900, 3, 5000, 1, 2048, 7};
  std::vector<int> next(lengths.size(), 0);
  for (const PromptChunk& chunk : chunk_prompts(c, DType::bf16, lengths)) {
    EXPECT_LE(chunk.tokens() * activation_bytes(c, DType::bf16), 240 << 20);
    for (std::size_t i = 0; i < chunk.pieces.size(); ++i) {
      int& at = next[static_cast<std::size_t>(chunk.first_sequence) + i];
      EXPECT_EQ(chunk.pieces[i].begin, at);
      EXPECT_GT(chunk.pieces[i].end, at);
      at = chunk.pieces[i].end;
    }
  }
  for (std::size_t b = 0; b < lengths.size(); ++b) EXPECT_EQ(next[b], lengths[b]);
}

TEST(Prompts, RandomOnesCycleThroughTheLengths) {
  const auto prompts = random_prompts(3, std::vector{2, 5}, 10, 1);
  EXPECT_EQ(prompts[0].size(), 2u);
  EXPECT_EQ(prompts[1].size(), 5u);
  EXPECT_EQ(prompts[2].size(), 2u);
  for (const auto& prompt : prompts)
    for (const int id : prompt) EXPECT_TRUE(id >= 0 && id < 10);
}

}  // namespace
}  // namespace warptune
