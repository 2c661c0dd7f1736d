// The header of a safetensors file, and every byte of the tensors that it describes.
#include "harness/llama/safetensors.h"

#include "tests/fuzz/fuzz_target.h"

using namespace warptune;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto path = fuzz::input_file("model.safetensors", fuzz::text_of(data, size));
  fuzz::accept_or_refuse([&] {
    const SafetensorsFile file(path);
    std::size_t bytes = 0;
    for (const auto& [name, tensor] : file.tensors()) bytes += tensor.data.size();
    fuzz::promise(bytes <= size, "tensors lie in the file and do not overlap");
    volatile unsigned sum = 0;
    for (const auto& [name, tensor] : file.tensors())
      for (const std::byte b : tensor.data) sum = sum + static_cast<unsigned>(b);
  });
  return 0;
}
