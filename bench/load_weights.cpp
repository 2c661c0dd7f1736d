// Compares how a checkpoint comes to the device: straight from the mapped file (pageable memory), and through
// page-locked staging buffers. The checkpoint is synthetic: LLaMA 2 7B with WARPTUNE_BENCH_LAYERS layers
// (default 9: 4.2 GB), written to the folder for temporary files. It lies in the page cache: the first load
// is not timed.
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/llama/weights.h"

namespace warptune {
namespace {
namespace fs = std::filesystem;

constexpr DType kDtype = DType::bf16;

/// A folder with the model's checkpoint, deleted at the end.
class SyntheticCheckpoint {
 public:
  explicit SyntheticCheckpoint(const ModelConfig& c)
      : folder_(fs::temp_directory_path() / fmt::format("warptune-bench-{}", ::getpid())) {
    fs::create_directories(folder_);
    const std::int64_t q = c.q_width(), kv = static_cast<std::int64_t>(c.kv_heads) * c.head_dim;
    add("model.embed_tokens.weight", {c.vocab, c.hidden});
    for (int i = 0; i < c.layers; ++i) {
      const std::string layer = fmt::format("model.layers.{}.", i);
      add(layer + "input_layernorm.weight", {c.hidden});
      add(layer + "self_attn.q_proj.weight", {q, c.hidden});
      add(layer + "self_attn.k_proj.weight", {kv, c.hidden});
      add(layer + "self_attn.v_proj.weight", {kv, c.hidden});
      add(layer + "self_attn.o_proj.weight", {c.hidden, q});
      add(layer + "post_attention_layernorm.weight", {c.hidden});
      add(layer + "mlp.gate_proj.weight", {c.intermediate, c.hidden});
      add(layer + "mlp.up_proj.weight", {c.intermediate, c.hidden});
      add(layer + "mlp.down_proj.weight", {c.hidden, c.intermediate});
    }
    add("model.norm.weight", {c.hidden});
    add("lm_head.weight", {c.vocab, c.hidden});
    write();
  }
  ~SyntheticCheckpoint() {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  SyntheticCheckpoint(const SyntheticCheckpoint&) = delete;
  SyntheticCheckpoint& operator=(const SyntheticCheckpoint&) = delete;
  const fs::path& folder() const { return folder_; }

 private:
  void add(const std::string& name, const std::vector<std::int64_t>& shape) {
    std::uint64_t bytes = size_of(kDtype);
    for (const std::int64_t extent : shape) bytes *= static_cast<std::uint64_t>(extent);
    header_[name] = {{"dtype", "BF16"}, {"shape", shape}, {"data_offsets", {bytes_, bytes_ + bytes}}};
    bytes_ += bytes;
  }
  void write() const {
    const std::string header = header_.dump();
    const std::uint64_t length = header.size();
    std::ofstream file(folder_ / "model.safetensors", std::ios::binary);
    file.write(reinterpret_cast<const char*>(&length), sizeof length) << header;
    const std::string block(std::size_t{16} << 20, '\x3c');  // not zero: a sparse file would read no pages
    for (std::uint64_t left = bytes_; left > 0;) {
      const auto part = std::min<std::uint64_t>(left, block.size());
      file.write(block.data(), static_cast<std::streamsize>(part));
      left -= part;
    }
    if (!file.flush()) throw std::runtime_error(fmt::format("'{}' cannot be written", folder_.string()));
  }

  fs::path folder_;
  nlohmann::json header_ = nlohmann::json::object();
  std::uint64_t bytes_ = 0;
};

ModelConfig config_of_bench() {
  ModelConfig config = preset("llama2-7b");
  const char* layers = std::getenv("WARPTUNE_BENCH_LAYERS");
  config.layers = layers ? std::max(1, std::atoi(layers)) : 9;
  return config;
}

void load(benchmark::State& state, std::size_t staging_bytes) {
  const ModelConfig config = config_of_bench();
  static const SyntheticCheckpoint checkpoint(config);
  const auto device = open_device("auto");
  for (auto _ : state) load_weights(*device, config, kDtype, checkpoint.folder(), staging_bytes);
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * weight_bytes(config, kDtype)));
  state.SetLabel(device->facts().name);
}

BENCHMARK_CAPTURE(load, warm_up, kStagingBytes)->Iterations(1)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(load, pageable, 0)->Iterations(5)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK_CAPTURE(load, staged_16_mib, std::size_t{16} << 20)
    ->Iterations(5)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK_CAPTURE(load, staged_64_mib, kStagingBytes)
    ->Iterations(5)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

}  // namespace
}  // namespace warptune

BENCHMARK_MAIN();
