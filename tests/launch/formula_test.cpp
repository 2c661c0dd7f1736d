// Formulas of launches, which the harness writes as JSON (tests/core/expression_test.cpp).
#include "warptune/detail/formula.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

namespace warptune::detail {
namespace {

TEST(Formula, HasTheValueOfItsExpression) {
  std::ifstream file(LAUNCH_DATA "/formulas.json");
  for (const auto& formula : nlohmann::json::parse(file)) {
    const Json json = Json::parse(formula["json"].dump(), "formulas.json");
    const Formula f(json, [](const Json& name) -> std::size_t { return name.text() == "tokens" ? 0 : 1; });
    EXPECT_EQ(f.evaluate([](std::size_t i) { return i == 0 ? 7 : 8; }, -1'000'000, 10'000'000), formula["is"])
        << formula["text"];
  }
}

}  // namespace
}  // namespace warptune::detail
