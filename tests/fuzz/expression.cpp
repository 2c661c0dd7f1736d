// Constraints: parsed, and evaluated with ordinary values and with zeros.
#include "harness/core/expression.h"

#include <cmath>

#include "tests/fuzz/fuzz_target.h"

using namespace warptune;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::accept_or_refuse([&] {
    const Expression expression(std::string(fuzz::text_of(data, size)), {"block", "vec", "tokens", "a"});
    for (const std::size_t index : expression.used_variables())
      fuzz::promise(index < 4, "a used variable is one of those given");
    for (const std::vector<double>& values :
         {std::vector<double>{256, 8, 4096, 3}, std::vector<double>{0, 0, 0, 0}}) {
      fuzz::promise(!std::isinf(expression.evaluate(values)), "a value is finite or NaN");
    }
  });
  return 0;
}
