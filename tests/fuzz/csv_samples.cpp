// The CSV of samples beside a sweep.
#include "harness/results/sweep_file.h"
#include "tests/fuzz/fuzz_target.h"

using namespace warptune;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto path = fuzz::input_file("sweep.samples.csv", fuzz::text_of(data, size));
  fuzz::accept_or_refuse([&] {
    for (const auto& [key, samples] : read_samples(path))
      for (const double us : samples) fuzz::promise(us > 0, "a sample is a time");
  });
  return 0;
}
