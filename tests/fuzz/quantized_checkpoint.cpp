// A quantized checkpoint: the config.json, a zero byte, and the header and tensors of its safetensors file.
// Where it is read, every matrix has the bytes of its format.
#include <fstream>

#include "harness/llama/quantized_matrix.h"
#include "harness/llama/weights.h"
#include "tests/fuzz/fuzz_target.h"

using namespace warptune;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input = fuzz::text_of(data, size);
  const std::size_t end = input.find('\0');
  if (end == std::string_view::npos) return 0;
  const auto file = fuzz::input_file("config.json", input.substr(0, end));
  const auto folder = fuzz::input_file("model.safetensors", input.substr(end + 1)).parent_path();
  fuzz::accept_or_refuse([&] {
    const ModelConfig config = read_model_config(file);
    if (!config.quantization) return;
    const Checkpoint checkpoint(folder);
    const std::string layer = "model.layers.0.";
    const std::int64_t q = config.q_width(),
                       kv = static_cast<std::int64_t>(config.kv_heads) * config.head_dim;
    const std::pair<Parts, std::int64_t> matrices[] = {
        {{{layer + "self_attn.o_proj", config.hidden}}, q},
        {{{layer + "mlp.down_proj", config.hidden}}, config.intermediate},
        {{{layer + "self_attn.q_proj", q},
          {layer + "self_attn.k_proj", kv},
          {layer + "self_attn.v_proj", kv}},
         config.hidden}};
    for (const auto& [parts, columns] : matrices) {
      const auto matrix = read_quantized(checkpoint, *config.quantization, parts, columns);
      if (!matrix) continue;
      std::int64_t rows = 0;
      for (const auto& part : parts) rows += part.second.count;
      const WeightFormat& format = matrix->format;
      const auto count = [](auto number) { return static_cast<std::size_t>(number); };
      fuzz::promise(matrix->weight.size() == count(packed_bytes(format.weights, rows, columns)),
                    "packed weights");
      const std::size_t scales = count(scale_count(format.weights, format.group, rows, columns));
      fuzz::promise(matrix->scales.size() == scales * size_of(scale_dtype(format)), "a scale per group");
      fuzz::promise(matrix->row_scales.size() == (format.weights == kWeightsNvfp4 ? count(rows) : 0),
                    "a scale per row");
      fuzz::promise(matrix->zeros.size() == (format.zeros ? scales : 0), "a zero point per group");
      fuzz::promise(matrix->order.size() == (format.act_order ? count(columns) : 0), "an index per column");
      for (const std::int32_t i : matrix->order)
        fuzz::promise(i >= 0 && i < columns, "an order of its columns");
    }
  });
  return 0;
}
