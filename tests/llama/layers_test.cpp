// decode --dump-layers and --compare-layers on the host device, and the files between them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "harness/core/error.h"
#include "harness/device/device.h"
#include "harness/llama/layer_dump.h"
#include "harness/llama/safetensors.h"
#include "tests/program.h"

namespace warptune {
namespace {

namespace fs = std::filesystem;

class Layers : public ::testing::Test {
 protected:
  fs::path folder_ = testing::fresh_folder("layers");
  std::string output_;

  int decode(const std::string& arguments) {
    const auto ended =
        testing::run_shell("{} decode --device host --out " + folder_.string() + " --steps 3 " + arguments);
    output_ = ended.text;
    return ended.code;
  }
  static std::string golden(const std::string& name) { return std::string(TEST_DATA) + "/golden/" + name; }
  std::string dump() const { return (folder_ / "dump").string(); }
  bool says(const std::string& part) const { return output_.find(part) != std::string::npos; }

  /// A copy of a checkpoint of bf16 with one changed element.
  std::string perturbed(const std::string& name, const std::string& changed) {
    const fs::path copy = folder_ / changed;
    fs::create_directories(copy);
    fs::copy_file(golden(name) + "/config.json", copy / "config.json");
    const SafetensorsFile from(golden(name) + "/model.safetensors");
    std::vector<TensorLayout> layout;
    for (const auto& [tensor, stored] : from.tensors())
      layout.push_back({tensor, stored.dtype, stored.shape});
    SafetensorsWriter to(copy / "model.safetensors", layout);
    for (const auto& [tensor, stored] : from.tensors()) {
      std::vector<std::byte> bytes(stored.data.begin(), stored.data.end());
      if (tensor == changed) store(DType::bf16, bytes.data(), 0, 4.0);
      to.append(tensor, bytes);
    }
    to.finish();
    return copy.string();
  }
};

TEST_F(Layers, TheSameRunAgrees) {
  const std::string run = "--model " + golden("gqa") + " --prompt-len 5,9 --sampling top_k=50,temperature=2 ";
  ASSERT_EQ(decode(run + "--dump-layers " + dump()), 0) << output_;
  EXPECT_TRUE(says("of 3 steps are in") && says("4 files")) << output_;
  EXPECT_FALSE(fs::exists(folder_ / "host" / "decode.csv")) << "nothing was timed";
  EXPECT_EQ(decode(run + "--compare-layers " + dump()), 0) << output_;
  EXPECT_TRUE(says("the layers agree: ") && says("largest relative difference 0.0e+00")) << output_;
}

TEST_F(Layers, ADumpHasEveryOpOfEveryLayer) {
  const std::string run = "--model " + golden("gqa") +
                          " --prompt-len 5,9 --dtype bf16 --fuse-append off --fuse-norm off "
                          "--fuse-swiglu off ";
  ASSERT_EQ(decode(run + "--dump-layers " + dump()), 0) << output_;
  const SafetensorsFile prefill(dump_file(dump(), 0)), step(dump_file(dump(), 3));
  const auto shape = [](const SafetensorsFile& file, const std::string& name) {
    return file.tensors().at(name).shape;
  };
  using Shape = std::vector<std::int64_t>;
  for (const char* layer : {"layer.0.", "layer.1."})
    for (const auto& [name, width] : {std::pair("linear_qkv.out", 1024),
                                      {"rope_append.q", 512},
                                      {"rope_append.k", 256},
                                      {"rope_append.v", 256},
                                      {"linear_o.out", 64},
                                      {"add_rms_norm_attention.residual", 64},
                                      {"add_rms_norm_attention.out", 64},
                                      {"linear_gate_up.out", 256},
                                      {"swiglu.out", 128},
                                      {"linear_down.out", 64},
                                      {"add_rms_norm_mlp.residual", 64},
                                      {"add_rms_norm_mlp.out", 64}}) {
      EXPECT_EQ(shape(prefill, std::string(layer) + name), (Shape{14, width})) << name;
      EXPECT_EQ(shape(step, std::string(layer) + name), (Shape{2, width})) << name;
      EXPECT_EQ(step.tensors().at(std::string(layer) + name).dtype, "BF16");
    }
  EXPECT_EQ(shape(prefill, "layer.1.attention_prefill.out"), (Shape{14, 512}));
  EXPECT_EQ(shape(step, "layer.1.attention_decode.out"), (Shape{2, 512}));
  EXPECT_EQ(shape(prefill, "embedding.ids"), (Shape{14, 1}));
  EXPECT_EQ(shape(prefill, "lm_head.out"), (Shape{2, 256}));
  EXPECT_EQ(shape(step, "lm_head.out"), (Shape{2, 256}));
}

TEST_F(Layers, OtherPlansStayWithinTheTolerance) {
  const std::string run = "--model " + golden("gqa") + " --prompt-len 5,9 ";
  ASSERT_EQ(decode(run + "--baseline naive --dump-layers " + dump()), 0) << output_;
  EXPECT_EQ(decode(run + "--compare-layers " + dump()), 0) << output_;
  EXPECT_EQ(decode(run + "--fuse-append on --compare-layers " + dump()), 0) << output_;
  EXPECT_TRUE(says("tensors are in one of the runs only") && says("layer.0.rope_append.q")) << output_;
  EXPECT_EQ(decode(run + "--fuse-norm on --fuse-swiglu on --compare-layers " + dump()), 0) << output_;
  EXPECT_TRUE(says("11 tensors are in one") && says("layer.0.add_rms_norm_attention.out")) << output_;
  EXPECT_EQ(decode(run + "--page-size 16 --compare-layers " + dump()), 0) << output_;
  EXPECT_EQ(decode(run + "--k-layout dsx --compare-layers " + dump()), 0) << output_;
  EXPECT_EQ(decode(run + "--k-layout dsx --page-size 16 --compare-layers " + dump()), 0) << output_;
  EXPECT_EQ(decode(run + "--dtype bf16 --compare-layers " + dump()), 0) << output_;
  EXPECT_TRUE(says("tolerance 4.2e-02") && !says("difference 0.0e+00")) << output_;
}

TEST_F(Layers, QuantizedCachesAreComparedAfterScaling) {
  const std::string run = "--model " + golden("gqa") + " --prompt-len 5,9 --kv-dtype int8 ";
  ASSERT_EQ(decode(run + "--page-size 16 --dump-layers " + dump()), 0) << output_;
  const SafetensorsFile prefill(dump_file(dump(), 0));
  const auto value = [&](const char* name, std::int64_t i) {
    return load(DType::fp32, prefill.tensors().at(name).data.data(), i);
  };
  double largest = 0;
  for (std::int64_t i = 0; i < 14 * 256; ++i) {
    largest = std::max(largest, std::abs(value("layer.1.rope_append_exact.k", i)));
    EXPECT_NEAR(value("layer.1.rope_append.k", i), value("layer.1.rope_append_exact.k", i), 0.05) << i;
  }
  EXPECT_GT(largest, 0.5);
  EXPECT_EQ(decode(run + "--compare-layers " + dump()), 0) << output_;
}

TEST_F(Layers, AChangedWeightIsFoundInItsLayerAndOp) {
  const std::string prompts = " --prompt-len 5,9 ";
  ASSERT_EQ(decode("--model " + golden("gqa") + prompts + "--dump-layers " + dump()), 0) << output_;
  for (const auto& [weight, op] : {std::pair("mlp.down_proj.weight", "linear_down.out"),
                                   {"self_attn.v_proj.weight", "linear_qkv.out"},
                                   {"self_attn.o_proj.weight", "linear_o.out"},
                                   {"post_attention_layernorm.weight", "add_rms_norm_attention.out"}}) {
    const std::string model = perturbed("gqa", std::string("model.layers.1.") + weight);
    EXPECT_EQ(decode("--model " + model + prompts + "--compare-layers " + dump()), 1) << output_;
    EXPECT_TRUE(says(std::string("the layers part first at step 0, layer 1, ") + op)) << output_;
    EXPECT_TRUE(says("relative difference")) << output_;
  }
}

TEST_F(Layers, ADumpThatDoesNotFitIsBadInput) {
  const std::string gqa = "--model " + golden("gqa"), compare = " --compare-layers " + dump();
  ASSERT_EQ(decode(gqa + " --prompt-len 5,9 --dump-layers " + dump()), 0) << output_;
  fs::create_directory(folder_ / "cut");
  fs::copy_file(dump_file(dump(), 0), dump_file(folder_ / "cut", 0));
  std::ofstream(folder_ / "ids.txt") << "1 2 3 4 5\n1 2 3 4 5 6 7 8 9\n";
  const std::pair<std::string, const char*> cases[] = {
      {gqa + " --prompt-ids " + (folder_ / "ids.txt").string() + compare, "the prompts of the dump are not"},
      {gqa + " --prompt-len 5,8" + compare, "model, batch or prompts differ"},
      {gqa + " --prompt-len 5,9 --batch 3" + compare, "model, batch or prompts differ"},
      {"--model " + golden("mha") + " --prompt-len 5,9" + compare, "model, batch or prompts differ"},
      {gqa + " --prompt-len 5,9 --compare-layers /nowhere", "there is no folder /nowhere"},
      {gqa + " --prompt-len 5,9 --compare-layers " + (folder_ / "cut").string(), "step-0001.safetensors"},
      {gqa + " --prompt-len 5,9 --dump-layers " + dump(), "is not an empty folder"},
      {gqa + " --graph on" + compare, "excludes"},
      {gqa + " --check-baseline 3" + compare, "excludes"},
      {gqa + compare + " --dump-layers x", "excludes"},
  };
  for (const auto& [arguments, part] : cases) {
    EXPECT_EQ(decode(arguments), 2) << arguments << "\n" << output_;
    EXPECT_TRUE(says(part)) << arguments << "\n" << output_;
  }
}

TEST(LayerDump, RefusesWhatTheDiskDoesNotHold) {
  const fs::path folder = testing::fresh_folder("room");
  const auto device = open_device("host");
  const Call huge{nullptr, {}, {Output::dense(0, "linear_qkv", "out", DType::fp32, 1LL << 50, 64, nullptr)}};
  const Call small{nullptr, {}, {Output::dense(0, "linear_qkv", "out", DType::fp32, 1, 64, nullptr)}};
  LayerDump prefill(*device, folder / "prefill", {&small, 1}, 1),
      steps(*device, folder / "steps", {&huge, 1}, 1);
  EXPECT_THROW(prefill.begin({&huge, 1}), InputError);
  EXPECT_THROW(steps.begin({&small, 1}), InputError);
  EXPECT_TRUE(fs::is_empty(folder));
  try {
    expect_room(folder / "a" / "b", 1e18);
    FAIL() << "the disk is not that large";
  } catch (const InputError& e) {
    EXPECT_NE(std::string(e.what()).find("take 953674316406.2 MiB"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("MiB free"), std::string::npos) << e.what();
  }
  EXPECT_NO_THROW(expect_room(folder, 1));
}

TEST(LayerDump, TheChunksOfAPrefillAreOneTensor) {
  const fs::path folder = testing::fresh_folder("chunks");
  const auto device = open_device("host");
  std::vector<float> values(10);
  std::iota(values.begin(), values.end(), 1.0f);
  const auto rows = [&](std::int64_t count, const float* data) {
    return Call{nullptr, {}, {Output::dense(2, "swiglu", "out", DType::fp32, count, 2, data)}};
  };
  const std::vector<Call> calls = {rows(3, values.data()), rows(2, values.data() + 6)};
  const auto run = [&](LaunchWatcher& watcher) {
    watcher.begin(calls);
    for (const Call& call : calls) watcher.launched(call);
    watcher.end();
  };
  LayerDump dump(*device, folder, {}, 0);
  run(dump);
  const SafetensorsFile file(dump_file(folder, 0));
  const StoredTensor& tensor = file.tensors().at("layer.2.swiglu.out");
  EXPECT_EQ(tensor.shape, (std::vector<std::int64_t>{5, 2}));
  EXPECT_EQ(std::memcmp(tensor.data.data(), values.data(), 40), 0);

  values[7] = 9;  // row 3 is [7, 8]
  values[9] = NAN;
  LayerCompare compare(*device, folder);
  run(compare);
  ASSERT_EQ(compare.first().size(), 1u);
  const Parting& p = compare.first()[0];
  EXPECT_EQ(p.layer, 2);
  EXPECT_EQ(p.op, "swiglu");
  EXPECT_EQ(p.row, 4) << "a NaN differs most";
  values[9] = 10;
  LayerCompare again(*device, folder);
  run(again);
  EXPECT_EQ(again.first().at(0).row, 3);
  EXPECT_EQ(again.first().at(0).column, 1);
  EXPECT_DOUBLE_EQ(again.first().at(0).relative, 1.0 / 8);
}

TEST(SafetensorsWriter, LeavesNothingUnlessFinished) {
  const fs::path folder = testing::fresh_folder("writer");
  const TensorLayout tensors[] = {{"b", "I32", {2}}, {"a", "BF16", {1, 3}}};
  const std::vector<std::byte> bytes(8, std::byte{1});
  {
    SafetensorsWriter writer(folder / "x.safetensors", tensors);
    writer.append("b", bytes);
    EXPECT_THROW(writer.append("b", bytes), std::logic_error) << "too many";
    EXPECT_THROW(writer.finish(), std::logic_error) << "too few";
  }
  EXPECT_TRUE(fs::is_empty(folder));
  SafetensorsWriter writer(folder / "x.safetensors", tensors);
  writer.append("a", std::span(bytes).first(4));
  writer.append("b", bytes);
  writer.append("a", std::span(bytes).first(2));
  writer.finish();
  const SafetensorsFile file(folder / "x.safetensors");
  EXPECT_EQ(file.tensors().at("a").dtype, "BF16");
  EXPECT_EQ(file.tensors().at("a").data.size(), 6u);
  EXPECT_EQ(file.tensors().at("b").shape, (std::vector<std::int64_t>{2}));
  EXPECT_THROW(SafetensorsWriter(folder / "none" / "x", tensors), std::runtime_error);
}

}  // namespace
}  // namespace warptune
