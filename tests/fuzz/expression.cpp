// Constraints: parsed, and evaluated with ordinary values and with zeros.
#include "harness/core/expression.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/fuzz/fuzz_target.h"

using namespace warptune;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::accept_or_refuse([&] {
    const std::vector<std::string> names = {"block", "vec", "tokens", "a"};
    const Expression expression{std::string(fuzz::text_of(data, size))};
    const auto unchanged = [](const Expression& e) {
      return e.substitute([](const std::string&) { return std::nullopt; });
    };
    const Expression printed = unchanged(expression);
    fuzz::promise(unchanged(Expression(printed.text())).json() == printed.json(),
                  "the printed text is the same");
    const Evaluator evaluate(expression.resolve(std::vector<Variable>(names.begin(), names.end())), names);
    for (const std::size_t index : evaluate.used()) fuzz::promise(index < 4, "a name is one of the given");
    for (const std::vector<double>& values :
         {std::vector<double>{256, 8, 4096, 3}, std::vector<double>{0, 0, 0, 0}}) {
      fuzz::promise(!std::isinf(evaluate(values)), "a value is finite or NaN");
    }
  });
  return 0;
}
