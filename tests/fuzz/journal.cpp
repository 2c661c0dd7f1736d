// The journal of a sweep: read, and opened to add a run.
#include "harness/results/journal.h"

#include "tests/fuzz/fuzz_target.h"

using namespace warptune;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto path = fuzz::input_file("sweep.journal", fuzz::text_of(data, size));
  fuzz::accept_or_refuse([&] {
    auto runs = Journal::read(path).runs();
    const Stamps stamps = {{"problem cold variant", "hash options"}};
    Journal(path).add("new run", stamps);
    runs["new run"] = stamps;
    fuzz::promise(Journal::read(path).runs() == runs, "a run is added, and the others stay");
  });
  return 0;
}
