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

/// A matrix [out, in] as op linear takes it.
struct Matrix {
  WeightFormat format = {};
  Buffer weight;                            // packed where it is quantized
  Buffer scales, zeros, order, row_scales;  // empty where its format has none
};

/// Biases are empty buffers where the model has none.
struct LayerWeights {
  Buffer input_norm;  // [hidden]
  Matrix qkv;         // [q_heads + 2 * kv_heads, head_dim, hidden]: q, then k, then v unless that is apart
  Matrix v;           // [kv_heads, head_dim, hidden], where its format is another than that of q and k
  Buffer qkv_bias;    // [q_heads + 2 * kv_heads, head_dim]
  Buffer qk_norm;     // [2, head_dim]: weights of the norms of q and of k; empty where there are none
  Matrix o;           // [hidden, q_heads * head_dim]
  Buffer o_bias;      // [hidden]
  Buffer attention_norm;  // [hidden], before the MLP
  Matrix gate_up;         // [2 * intermediate, hidden]: gate, then up
  Buffer gate_up_bias;    // [2 * intermediate]
  Matrix down;            // [hidden, intermediate]
  Buffer down_bias;       // [hidden]
};

struct Weights {
  DType dtype = DType::bf16;
  Buffer embedding;  // [vocab, hidden]
  std::vector<LayerWeights> layers;
  Buffer final_norm;               // [hidden]
  Matrix lm_head;                  // [vocab, hidden]; empty if tied to the embedding
  std::vector<std::string> notes;  // sentences about the checkpoint for the user
};

/// The config of a checkpoint folder or a GGUF file, with the formats of its matrices. Without weights in the
/// folder these are what its quantization_config declares, and lm_head is in 16 bits. Throws InputError.
ModelConfig read_model(const std::filesystem::path& folder);

/// Device memory with these bytes.
Buffer uploaded(Device& device, std::span<const std::byte> bytes);

/// Bytes of all weights on the device, each matrix in its own format.
double weight_bytes(const ModelConfig& config, DType dtype);

/// Size of each staging buffer of a load: large enough that a copy outlasts its start, small enough for the
/// caches of the host. On an H200's host 28 GB/s, with 64 MiB 17 GB/s, pageable 6.7 GB/s
/// (results/h200/evidence/load_weights.csv).
inline constexpr std::size_t kStagingBytes = std::size_t{16} << 20;

/// Loads a checkpoint folder and converts to `dtype`. The multipliers of embedding and logits are folded into
/// the embedding and the final norm. Quantized matrices stay as they are; where none is, the
/// matrices of the layers are quantized to config.weights. Throws InputError if a tensor is missing or wrong.
/// `staging_bytes` 0: without staging buffers, straight from the mapped file.
Weights load_weights(Device& device, const ModelConfig& config, DType dtype,
                     const std::filesystem::path& folder, std::size_t staging_bytes = kStagingBytes);
/// "weights: 13.5 GB in 2.94 s, 4.6 GB/s".
std::string load_line(double bytes, double seconds);
/// Random matrices, those of the layers in config.weights, scaled to keep activations and logits near 1;
/// norms are 1, biases small.
Weights random_weights(Device& device, const ModelConfig& config, DType dtype, std::uint64_t seed);

}  // namespace warptune
