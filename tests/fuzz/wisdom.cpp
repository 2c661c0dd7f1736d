// A wisdom file. Wisdom that was read is written as a text that reads as the same wisdom.
#include "harness/results/wisdom.h"

#include "tests/fuzz/fuzz_target.h"

using namespace warptune;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto path = fuzz::input_file("wisdom.json", fuzz::text_of(data, size));
  fuzz::accept_or_refuse([&] {
    const std::string text = Wisdom::load(path).to_json();
    const Wisdom again = Wisdom::load(fuzz::input_file("again.json", text));
    fuzz::promise(again.to_json() == text, "wisdom is the same after writing and reading");
  });
  return 0;
}
