// The YAML of a sweep, and the spaces of its first problems.
#include "harness/tune/sweep.h"
#include "tests/fuzz/fuzz_target.h"
#include "variants/table.h"

using namespace warptune;

namespace {

/// Evaluates the constraints on the two ends of each space.
void look_into_spaces(const SweepItem& item, const DeviceFacts& facts) {
  for (const VariantChoice& choice : item.choices) {
    const Space space(*choice.variant, item.problem, facts, choice.overrides, choice.constraints);
    if (space.size() == 0) continue;
    for (const std::int64_t index : {std::int64_t{0}, space.size() - 1}) space.why_excluded(space.at(index));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kItems = 4;  // more would only take time
  static const DeviceFacts facts = known_device("sm_90a");
  const auto path = fuzz::input_file("sweep.yaml", fuzz::text_of(data, size));
  fuzz::accept_or_refuse([&] {
    const Sweep sweep = load_sweep(ops(), path);
    for (std::size_t i = 0; i < sweep.items.size() && i < kItems; ++i)
      look_into_spaces(sweep.items[i], facts);
  });
  return 0;
}
