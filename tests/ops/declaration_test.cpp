// What the declarations of all shipped variants promise.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "harness/core/error.h"
#include "harness/core/variant_values.h"
#include "harness/tune/sweep.h"
#include "variants/table.h"

namespace warptune {
namespace {

/// Labels are written by name: a number in the place of one would survive a change of their order.
void expect_labels(const Expression& expression, std::span<const Variable> variables,
                   const std::string& where) {
  EXPECT_EQ(Expression(expression.text()).label_used_as_number(variables), std::nullopt)
      << where << ": " << expression.text();
}

TEST(Declaration, LabelsAreWrittenByName) {
  for (const OpEntry& entry : ops()) {
    for (const Variant& v : entry.variants) {
      const std::string name = entry.op.name + "/" + v.name;
      const std::vector<Variable> variables = variables_of(v, entry.op.dims);
      for (const Expression& e : v.constraints) expect_labels(e, variables, name);
      for (const DerivedValue& d : v.derived) expect_labels(d.value, variables, name);
      expect_labels(v.workspace, variables, name);
      for (const Stage& stage : v.stages) {
        for (const Expression* e : parts_of(stage.geometry)) expect_labels(*e, variables, name);
        expect_labels(stage.condition, variables, name);
      }
    }
    for (const Preference& p : entry.preferences)
      expect_labels(p.when, variables_of({}, entry.op.dims), entry.op.name);
  }
  for (const Tile& tile : ops().tiles())
    expect_labels(tile.when, variables_of({}, ops().find(tile.op).op.dims), tile.op + "/" + tile.variant);
}

TEST(Declaration, ShippedSweepsWriteLabelsByName) {
  for (const auto& file : std::filesystem::directory_iterator(SOURCE_ROOT "/configs")) {
    if (file.path().extension() != ".yaml") continue;
    try {
      const Sweep sweep = load_sweep(ops(), file.path());
      for (const SweepItem& item : sweep.items)
        for (const VariantChoice& choice : item.choices)
          for (const Expression& e : choice.constraints)
            expect_labels(e, variables_of(*choice.variant, item.entry->op.dims), file.path().string());
    } catch (const InputError& e) {  // it names a library that this program is built without
      EXPECT_NE(std::string(e.what()).find("built without"), std::string::npos) << e.what();
    }
  }
}

TEST(Declaration, AWrongNameIsReportedWithItsVariant) {
  OpEntry entry{.op = ops().find("swiglu").op};
  entry.variants.push_back({.name = "wrong", .idea = "x", .constraints = {"blok > 1"}});
  try {
    declare(entry);
    FAIL() << "no error";
  } catch (const InputError& e) {
    EXPECT_TRUE(std::string(e.what()).starts_with("variant 'swiglu/wrong': unknown name 'blok'")) << e.what();
  }
}

/// A derived value does not hide a dim, a parameter or a fact, and has words that explain it.
TEST(Declaration, DerivedValuesHaveNamesOfTheirOwn) {
  for (const OpEntry& entry : ops())
    for (const Variant& v : entry.variants) {
      std::set<std::string> names;
      for (const Variable& variable : variables_of(v, entry.op.dims)) {
        const bool is_parameter =
            std::ranges::find(v.parameters, variable.name, &Parameter::name) != v.parameters.end();
        EXPECT_TRUE(is_parameter || names.insert(variable.name).second)
            << entry.op.name << "/" << v.name << ": " << variable.name;
      }
      for (const DerivedValue& d : v.derived)
        EXPECT_NE(d.doc, "") << entry.op.name << "/" << v.name << ": " << d.name;
    }
}

}  // namespace
}  // namespace warptune
