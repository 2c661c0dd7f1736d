// warptune quantize --model DIR --weights int4 --out DIR: writes a checkpoint with quantized layers.
#include <fmt/format.h>

#include <memory>
#include <string>

#include "cli/commands.h"
#include "harness/core/error.h"
#include "harness/core/print.h"
#include "harness/core/stopwatch.h"
#include "harness/llama/gguf.h"
#include "harness/llama/quantize_checkpoint.h"

namespace warptune {
namespace {

struct QuantizeArguments {
  std::string model, weights, out;
};

/// "4.7 GB", "12.3 MB".
std::string size_text(std::int64_t bytes) {
  const bool large = bytes >= 1'000'000'000;
  return fmt::format("{:.1f} {}", static_cast<double>(bytes) / (large ? 1e9 : 1e6), large ? "GB" : "MB");
}

void write_quantized(const QuantizeArguments& given) {
  const Stopwatch watch;
  const WeightFormat format = parse_weight_format(given.weights);
  if (is_gguf(given.model))
    throw InputError("{} is a file; quantize takes the folder of a checkpoint in 16 or 32 bits", given.model);
  const QuantizedCheckpoint written = quantize_checkpoint(given.model, format, given.out);
  print("{}: {} -> {} in {} file{}, {}, {:.1f} s\n", given.out, size_text(written.bytes_before),
        size_text(written.bytes), written.files, written.files == 1 ? "" : "s", format.str(),
        watch.seconds());
}

}  // namespace

void add_quantize(CLI::App& app, int&) {
  auto* command = app.add_subcommand(
      "quantize", "Writes a checkpoint with quantized layers, in the layout of compressed-tensors");
  command->footer(
      "Needs no GPU. The logits of the new folder are those of decode --weights; docs/quantized.md has the "
      "formats.\n"
      "Examples:\n"
      "  warptune quantize --model DIR --weights int4 --out DIR-int4\n"
      "  warptune quantize --model DIR --weights int4:group=32 --out DIR-int4\n"
      "  warptune quantize --model DIR --weights fp8 --out DIR-fp8");
  const auto given = std::make_shared<QuantizeArguments>();
  command->add_option("--model", given->model, "The folder of a Hugging Face checkpoint in 16 or 32 bits")
      ->required();
  command
      ->add_option(
          "--weights", given->weights,
          "int8, fp8, nvfp4, mxfp4, or int4 with :group=32, 64 or 128 (default), or 0 for the whole row")
      ->required();
  command->add_option("-o,--out", given->out, "A new or empty folder")->required();
  command->callback([given] { write_quantized(*given); });
}

}  // namespace warptune
