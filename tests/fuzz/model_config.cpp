// The config.json of a model, and the problems of the model that it describes.
#include "harness/llama/model_config.h"

#include <array>

#include "harness/llama/model_problems.h"
#include "tests/fuzz/fuzz_target.h"
#include "variants/table.h"

using namespace warptune;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::accept_or_refuse([&] {
    const ModelConfig config = parse_model_config(fuzz::text_of(data, size), "config.json");
    fuzz::promise(config.q_heads % config.kv_heads == 0, "whole groups of query heads");
    const std::array<std::int64_t, 2> lengths = {100, 4096};
    decode_problems(ops(), config, DType::bf16, 8, lengths);
    prefill_problems(ops(), config, DType::bf16, 2, lengths);
  });
  return 0;
}
