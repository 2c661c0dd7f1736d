#pragma once
// The weights of a LLaMA on a device, one struct per layer, in the dtype of the run.
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "harness/core/dtype.h"
#include "harness/device/device.h"
#include "harness/llama/model_config.h"

namespace warptune {

/// Matrices are [out, in]. Biases are empty buffers where the model has none.
struct LayerWeights {
  Buffer input_norm;      // [hidden]
  Buffer qkv;             // [q_heads + 2 * kv_heads, head_dim, hidden]: q, then k, then v
  Buffer qkv_bias;        // [q_heads + 2 * kv_heads, head_dim]
  Buffer o;               // [hidden, q_heads * head_dim]
  Buffer o_bias;          // [hidden]
  Buffer attention_norm;  // [hidden], before the MLP
  Buffer gate_up;         // [2 * intermediate, hidden]: gate, then up
  Buffer down;            // [hidden, intermediate]
};

struct Weights {
  DType dtype = DType::bf16;
  Buffer embedding;  // [vocab, hidden]
  std::vector<LayerWeights> layers;
  Buffer final_norm;               // [hidden]
  Buffer lm_head;                  // [vocab, hidden]; empty if tied to the embedding
  std::vector<std::string> notes;  // sentences about the checkpoint for the user
  const void* head() const { return lm_head.data() ? lm_head.data() : embedding.data(); }
};

/// Device memory with these bytes.
Buffer uploaded(Device& device, std::span<const std::byte> bytes);

/// Bytes of all weights on the device.
double weight_bytes(const ModelConfig& config, DType dtype);

/// Size of each staging buffer of a load: large enough that a copy outlasts its start, small enough for the
/// caches of the host. On an H200's host 28 GB/s, with 64 MiB 17 GB/s, pageable 6.7 GB/s
/// (results/h200/evidence/load_weights.csv).
inline constexpr std::size_t kStagingBytes = std::size_t{16} << 20;

/// Loads a checkpoint folder and converts to `dtype`. Throws InputError if a tensor is missing or wrong.
/// `staging_bytes` 0: without staging buffers, straight from the mapped file.
Weights load_weights(Device& device, const ModelConfig& config, DType dtype,
                     const std::filesystem::path& folder, std::size_t staging_bytes = kStagingBytes);
/// "weights: 13.5 GB in 2.94 s, 4.6 GB/s".
std::string load_line(double bytes, double seconds);
/// Random matrices, scaled to keep activations and logits near 1; norms are 1, biases small.
Weights random_weights(Device& device, const ModelConfig& config, DType dtype, std::uint64_t seed);

}  // namespace warptune
