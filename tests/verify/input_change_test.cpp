// Inputs that a sweep changes: what tensors and reference then hold, and which results are right.
#include "harness/verify/input_change.h"

#include <gtest/gtest.h>

#include <cmath>

#include "harness/core/error.h"
#include "harness/device/host_device.h"
#include "harness/verify/oracle.h"

namespace warptune {
namespace {

constexpr std::int64_t kElements = 10;

/// y = 2 x.
Op doubled(DType dtype = DType::fp32) {
  return {.name = "twice",
          .tensors =
              [=](const Problem&, std::uint64_t) {
                return std::vector<TensorSpec>{
                    {.name = "x", .dtype = dtype, .shape = {kElements}},
                    {.name = "ids", .dtype = DType::int32, .shape = {1}, .values = {3}},
                    {.name = "table", .dtype = DType::fp32, .shape = {2}, .floats = {1, 2}},
                    {.name = "y", .dtype = dtype, .shape = {kElements}, .role = Role::output}};
              },
          .cost = [](const Problem&) { return Cost{}; },
          .units = [](const Problem&) { return kElements; },
          .reference = [](const Problem&, const Inputs& inputs, std::int64_t unit,
                          Expected& expected) { expected.put("y", unit, {2 * inputs["x"][unit]}); },
          .tolerance = [=](const Problem&) { return default_tolerance(dtype); }};
}

struct ChangedInputs {
  explicit ChangedInputs(const InputChanges& changes, DType dtype = DType::fp32)
      : dtype(dtype), op(with_inputs(doubled(dtype), changes)), oracle(op, Problem{.op = "twice"}, 3) {
    set.fill(oracle.specs(), oracle.seed());
    for (std::int64_t i = 0; i < kElements; ++i) put(i, 2 * x(i));
  }
  double x(std::int64_t i) { return load(dtype, set.addresses()[0], i); }
  void put(std::int64_t i, double y) { store(dtype, set.addresses()[3], i, y); }
  bool is_right() { return oracle.compare(set).ok; }

  DType dtype;
  Op op;
  std::unique_ptr<Device> device = make_host_device();
  Oracle oracle;
  TensorSet set{*device, oracle.specs()};
};

TEST(InputChange, ScalesAndSetsElements) {
  ChangedInputs usual({}), changed({{.tensor = "x", .scale = 1e-5, .value = -INFINITY, .every = 4},
                                    {.tensor = "table", .scale = 3}});
  for (std::int64_t i = 0; i < kElements; ++i)
    if (i % 4 == 0)
      EXPECT_EQ(changed.x(i), -INFINITY);
    else
      EXPECT_FLOAT_EQ(static_cast<float>(changed.x(i)), static_cast<float>(1e-5 * usual.x(i)));
  EXPECT_EQ(static_cast<const float*>(changed.set.addresses()[2])[1], 6);
  EXPECT_TRUE(changed.is_right());
}

TEST(InputChange, NanIsRightWhereItIsExpected) {
  ChangedInputs c({{.tensor = "x", .value = NAN, .every = 3}});
  EXPECT_TRUE(std::isnan(c.x(3)));
  EXPECT_TRUE(c.is_right());
  c.put(3, 1);
  EXPECT_FALSE(c.is_right()) << "a number in place of NaN";
  c.put(3, NAN);
  c.put(4, NAN);
  EXPECT_FALSE(c.is_right()) << "NaN, or an unwritten element, in place of a number";
}

TEST(InputChange, ResultsBelowTheNormalNumbersMayBeRounded) {
  ChangedInputs c({{.tensor = "x", .scale = 1e-7}}, DType::fp16);
  EXPECT_TRUE(c.is_right());
  c.put(1, 2 * c.x(1) + 0x1p-23);  // two steps
  EXPECT_FALSE(c.is_right());
}

TEST(InputChange, ErrorsNameTheTensor) {
  const auto error = [](const char* tensor) -> std::string {
    try {
      check_inputs(doubled(), Problem{.op = "twice"}, {{.tensor = tensor, .scale = 2}});
    } catch (const InputError& e) {
      return e.what();
    }
    return "no error";
  };
  EXPECT_EQ(error("x"), "no error");
  EXPECT_EQ(error("w"), "twice[,dtype=fp32] has no tensor 'w'; did you mean 'x'?");
  EXPECT_EQ(
      error("y"),
      "'y' of twice[,dtype=fp32] is an output; only inputs of fp32, fp16 or bf16 are changed, here x, table");
  EXPECT_EQ(
      error("ids"),
      "'ids' of twice[,dtype=fp32] is int32; only inputs of fp32, fp16 or bf16 are changed, here x, table");
}

}  // namespace
}  // namespace warptune
