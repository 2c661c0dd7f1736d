// A GGUF file: its header, its config, and every value of the tensors.
#include "harness/llama/gguf.h"

#include "harness/llama/weights.h"
#include "tests/fuzz/fuzz_target.h"

using namespace warptune;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto path = fuzz::input_file("model.gguf", fuzz::text_of(data, size));
  fuzz::accept_or_refuse([&] {
    const GgufFile file(path);
    for (const auto& [name, tensor] : file.tensors()) {
      fuzz::promise(tensor.data.size() <= size, "tensors lie in the file");
      volatile float sum = 0;
      for (const float value : expanded(tensor)) sum = sum + value;
    }
    fuzz::promise(file.tokenizer().size() <= file.metadata().size(), "keys of the metadata");
    const GgufModel model(path);
    fuzz::promise(!model.config().quantization || model.config().quantization->method == "gguf", "a method");
    read_model(path);
  });
  return 0;
}
