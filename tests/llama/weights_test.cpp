// The weights of a checkpoint, also through staging buffers, and of the presets.
#include "harness/llama/weights.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <vector>

#include "harness/core/error.h"
#include "harness/core/json.h"
#include "harness/llama/safetensors.h"
#include "tests/files.h"
#include "tests/measure/forwarding_device.h"
#include "tests/program.h"

namespace warptune {
namespace {

namespace fs = std::filesystem;

/// Copies as late as the interface allows: a buffer that is filled before its copy has ended gives wrong
/// weights.
class LateStaging : public UploadStaging {
 public:
  LateStaging(std::size_t bytes, int& sends) : sends_(sends) {
    for (Slot& slot : slots_) slot.data.resize(bytes);
  }
  ~LateStaging() override {
    for (Slot& slot : slots_) copy(slot);
  }
  std::span<std::byte> next() override {
    turn_ = 1 - turn_;
    copy(slots_[turn_]);
    return slots_[turn_].data;
  }
  void send(void* to, std::size_t bytes) override {
    slots_[turn_].waiting = {static_cast<std::byte*>(to), bytes};
    ++sends_;
  }

 private:
  struct Slot {
    std::vector<std::byte> data;
    std::span<std::byte> waiting;  // where its copy goes
  };
  static void copy(Slot& slot) {
    if (!slot.waiting.empty()) std::memcpy(slot.waiting.data(), slot.data.data(), slot.waiting.size());
    slot.waiting = {};
  }
  std::array<Slot, 2> slots_;
  std::size_t turn_ = 0;
  int& sends_;
};

class StagingDevice : public testing::ForwardingDevice {
 public:
  StagingDevice() : ForwardingDevice(open_device("host")) {}
  std::unique_ptr<UploadStaging> upload_staging(std::size_t bytes) override {
    asked_bytes = bytes;
    return std::make_unique<LateStaging>(bytes, sends);
  }
  std::optional<std::size_t> asked_bytes;
  int sends = 0;
};

std::vector<std::byte> bytes_of(const Buffer& buffer) {
  return {buffer.as<std::byte>(), buffer.as<std::byte>() + buffer.bytes()};
}

std::vector<std::vector<std::byte>> all_bytes(const Weights& w) {
  std::vector<std::vector<std::byte>> all = {bytes_of(w.embedding), bytes_of(w.final_norm),
                                             bytes_of(w.lm_head.weight)};
  for (const LayerWeights& l : w.layers)
    for (const Buffer* buffer :
         {&l.input_norm, &l.qkv.weight, &l.o.weight, &l.attention_norm, &l.gate_up.weight, &l.down.weight})
      all.push_back(bytes_of(*buffer));
  return all;
}

TEST(LoadWeights, ThroughStagingBuffersAreTheSameWeights) {
  const fs::path folder = fs::path(TEST_DATA) / "golden" / "gqa";
  const ModelConfig config = read_model_config(folder / "config.json");
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    const auto host = open_device("host");
    const Weights direct = load_weights(*host, config, dtype, folder);
    StagingDevice device;
    constexpr std::size_t kBytes = 1000;  // smaller than a matrix, and no multiple of its rows
    const Weights staged = load_weights(device, config, dtype, folder, kBytes);
    EXPECT_EQ(device.asked_bytes, kBytes);
    EXPECT_GT(device.sends, weight_bytes(config, dtype) / kBytes);
    EXPECT_EQ(all_bytes(staged), all_bytes(direct)) << name_of(dtype);
  }
}

TEST(LoadWeights, StagingBuffersAreNoLargerThanTheModel) {
  const fs::path folder = fs::path(TEST_DATA) / "golden" / "gqa";
  const ModelConfig config = read_model_config(folder / "config.json");
  StagingDevice device;
  load_weights(device, config, DType::fp32, folder);
  ASSERT_TRUE(device.asked_bytes);
  EXPECT_LE(*device.asked_bytes, weight_bytes(config, DType::fp32));
  device.asked_bytes.reset();
  load_weights(device, config, DType::fp32, folder, 0);
  EXPECT_FALSE(device.asked_bytes) << "0 means no staging buffers";
}

TEST(GpuLoadWeights, ThroughPinnedBuffersAreTheSameWeights) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
  const fs::path folder = fs::path(TEST_DATA) / "golden" / "gqa";
  const ModelConfig config = read_model_config(folder / "config.json");
  const auto device = open_device("cuda:0");
  ASSERT_TRUE(device->upload_staging(1000));
  const auto sums = [&](std::size_t staging_bytes) {
    const Weights w = load_weights(*device, config, DType::bf16, folder, staging_bytes);
    std::vector<Region> regions = {{w.embedding.data(), w.embedding.bytes()}};
    for (const LayerWeights& l : w.layers)
      for (const Matrix* matrix : {&l.qkv, &l.o, &l.gate_up, &l.down})
        regions.push_back({matrix->weight.data(), matrix->weight.bytes()});
    return device->checksums(regions);
  };
  EXPECT_EQ(sums(1000), sums(0));
}

/// A copy of a golden whose files a test changes.
class ChangedCheckpoint : public ::testing::Test {
 protected:
  void copy(const char* golden) {
    fs::copy(fs::path(TEST_DATA) / "golden" / golden, folder_, fs::copy_options::recursive);
  }
  /// Replaces a text in a file by one of the same length: blanks fill up a shorter one.
  void replace(const char* file, const std::string& from, std::string to) const {
    std::string bytes = testing::text_of(folder_ / file);
    const auto at = bytes.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    to.resize(from.size(), ' ');
    bytes.replace(at, from.size(), to);
    std::ofstream(folder_ / file, std::ios::binary) << bytes;
  }
  Weights load() {
    return load_weights(*device_, read_model_config(folder_ / "config.json"), DType::fp32, folder_);
  }
  fs::path folder_ = testing::fresh_folder("changed_checkpoint");
  OwnedDevice device_ = open_device("host");
};

/// The files of the golden that name the embedding.
constexpr const char* kTiedFiles[] = {"model.safetensors.index.json", "model-00001-of-00002.safetensors"};

TEST_F(ChangedCheckpoint, ATiedModelNeedsOneOfItsTwoMatrices) {
  copy("tied");
  const auto embedding = bytes_of(load().embedding);
  for (const char* file : kTiedFiles) replace(file, "\"model.embed_tokens.weight\"", "\"lm_head.weight\"");
  const Weights w = load();
  EXPECT_EQ(bytes_of(w.embedding), embedding);
  EXPECT_FALSE(w.lm_head.weight.data());
  EXPECT_TRUE(w.notes.empty());
  for (const char* file : kTiedFiles) replace(file, "\"lm_head.weight\"", "\"head.weight\"");
  EXPECT_THROW(load(), InputError);
}

TEST_F(ChangedCheckpoint, AnotherHeadOfATiedModelIsANote) {
  copy("gqa");
  replace("config.json", "\"tie_word_embeddings\": false", "\"tie_word_embeddings\": true");
  const std::string note = folder_.string() +
                           ": 'lm_head.weight' is not used: tie_word_embeddings is true, "
                           "and it differs from 'model.embed_tokens.weight'";
  EXPECT_EQ(load().notes, std::vector{note});
  const fs::path file = folder_ / "model.safetensors";
  std::string bytes = testing::text_of(file);
  {
    const SafetensorsFile stored(file);
    const auto text_of = [&](const char* name) {
      const auto data = stored.tensors().at(name).data;
      return std::string(reinterpret_cast<const char*>(data.data()), data.size());
    };
    const std::string head = text_of("lm_head.weight");
    bytes.replace(bytes.find(head), head.size(), text_of("model.embed_tokens.weight"));
  }
  std::ofstream(file, std::ios::binary) << bytes;
  EXPECT_TRUE(load().notes.empty()) << "both are equal";
}

TEST_F(ChangedCheckpoint, AFileBesideShardsIsANote) {
  copy("gqa");
  fs::rename(folder_ / "model.safetensors", folder_ / "one.safetensors");
  nlohmann::json map;
  const SafetensorsFile shard(folder_ / "one.safetensors");
  for (const auto& [name, tensor] : shard.tensors()) map[name] = "one.safetensors";
  std::ofstream(folder_ / "model.safetensors.index.json") << nlohmann::json{{"weight_map", map}}.dump();
  EXPECT_TRUE(load().notes.empty());
  std::ofstream(folder_ / "model.safetensors") << "old";
  ASSERT_EQ(load().notes.size(), 1u);
  EXPECT_NE(load().notes[0].find("model.safetensors is not read"), std::string::npos);
}

TEST(LoadLine, HasBytesSecondsAndRate) {
  EXPECT_EQ(load_line(13.476e9, 2.94), "weights: 13.5 GB in 2.94 s, 4.6 GB/s");
  EXPECT_EQ(load_line(300e6, 0.1), "weights: 300.0 MB in 0.10 s, 3.0 GB/s");
}

TEST(Weights, OtherConfigsAreOneSentence) {
  const auto device = open_device("host");
  const fs::path folder = fs::path(TEST_DATA) / "golden" / "mha";
  ModelConfig config = read_model_config(folder / "config.json");
  config.layers = 3;
  EXPECT_THROW(load_weights(*device, config, DType::fp32, folder), InputError);  // a missing tensor
  config.layers = 2;
  config.intermediate = 64;
  EXPECT_THROW(load_weights(*device, config, DType::fp32, folder), InputError);  // a wrong shape
}

TEST(Weights, PresetsHaveThePublishedParameterCounts) {
  const std::pair<const char*, double> published[] = {
      {"llama2-7b", 6738415616},   {"llama2-13b", 13015864320},    {"llama3-8b", 8030261248},
      {"llama3.1-8b", 8030261248}, {"llama3.3-70b", 70553706496},  {"llama3.2-1b", 1235814400},
      {"llama3.2-3b", 3212749824}, {"tinyllama-1.1b", 1100048384}, {"mistral-7b", 7248023552},
      {"qwen2.5-7b", 7615616512},  {"qwen3-8b", 8190735360},       {"qwen3-0.6b", 596049920}};
  EXPECT_EQ(std::size(published), preset_names().size());
  for (const auto& [name, parameters] : published)
    EXPECT_EQ(static_cast<double>(weight_bytes(preset(name), DType::bf16)), 2 * parameters) << name;
}

}  // namespace
}  // namespace warptune
