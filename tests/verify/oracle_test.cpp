#include "harness/verify/oracle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "harness/device/host_device.h"

namespace warptune {
namespace {

constexpr std::int64_t kCount = 10;

/// y = 2 x, one unit per element; z, an integer, is the unit's number.
Op twice(std::int64_t count = kCount) {
  return {.name = "twice",
          .tensors =
              [=](const Problem&, std::uint64_t) {
                return std::vector<TensorSpec>{
                    {.name = "x", .dtype = DType::fp32, .shape = {count}, .cache = CacheState::hot},
                    {.name = "y", .dtype = DType::fp32, .shape = {count}, .role = Role::output},
                    {.name = "z", .dtype = DType::int32, .shape = {count}, .role = Role::output}};
              },
          .cost = [=](const Problem&) { return Cost{.flops = 100.0 * static_cast<double>(count)}; },
          .units = [=](const Problem&) { return count; },
          .reference =
              [](const Problem&, const Inputs& inputs, std::int64_t unit, Expected& expected) {
                expected.put("y", unit, {2 * inputs["x"][unit]});
                expected.put("z", unit, {static_cast<double>(unit)});
              },
          .tolerance = [](const Problem& p) { return default_tolerance(p.dtype); }};
}

/// A filled set with correct outputs, for tests to change.
struct Case {
  explicit Case(Op op = twice()) : op(std::move(op)), oracle(this->op, Problem{.op = "twice"}, 3) {
    set.fill(oracle.specs(), oracle.seed());
    for (int i = 0; i < kCount; ++i) {
      y()[i] = 2 * x()[i];
      z()[i] = i;
    }
  }
  float* x() { return static_cast<float*>(set.addresses()[0]); }
  float* y() { return static_cast<float*>(set.addresses()[1]); }
  std::int32_t* z() { return static_cast<std::int32_t*>(set.addresses()[2]); }
  Verdict verdict() { return oracle.compare(set); }

  Op op;
  std::unique_ptr<Device> device = make_host_device();
  Oracle oracle;
  TensorSet set{*device, oracle.specs()};
};

/// The poison of an integer is a value that a kernel may have to write.
TEST(Oracle, AnIntegerMayHaveTheValueOfThePoison) {
  Op op = twice();
  op.reference = [](const Problem&, const Inputs& inputs, std::int64_t unit, Expected& expected) {
    expected.put("y", unit, {2 * inputs["x"][unit]});
    expected.put("z", unit, {unit == 3 ? -1.0 : static_cast<double>(unit)});
  };
  Case c(std::move(op));
  c.z()[3] = -1;
  EXPECT_TRUE(c.verdict().ok) << c.verdict().detail;
  c.z()[4] = -1;
  EXPECT_EQ(c.verdict().detail, "2 of 10 elements of 'z' were not written or are NaN");
  c.z()[3] = 3;
  EXPECT_FALSE(c.verdict().ok);
}

// A reference that forgets an output, or misspells it, would accept whatever a kernel writes.
TEST(Oracle, RefusesAReferenceWithGaps) {
  const auto with = [](void (*reference)(const Problem&, const Inputs&, std::int64_t, Expected&)) {
    Op op = twice();
    op.reference = reference;
    Oracle(op, Problem{.op = "twice"}, 3);
  };
  EXPECT_THROW(
      with([](const Problem&, const Inputs&, std::int64_t i, Expected& out) { out.put("y", i, {0}); }),
      std::logic_error)
      << "no z";
  EXPECT_THROW(with([](const Problem&, const Inputs&, std::int64_t i, Expected& out) {
                 out.put("y", i, {0});
                 out.put("", i, {0});
               }),
               std::logic_error);
  EXPECT_THROW(with([](const Problem&, const Inputs&, std::int64_t i, Expected& out) {
                 out.put("y", i, {0});
                 out.put("z", i, {0, 0});
               }),
               std::logic_error)
      << "beyond the end";
  EXPECT_THROW(with([](const Problem&, const Inputs&, std::int64_t i, Expected& out) {
                 out.put("x", i, {0});
                 out.put("y", i, {0});
                 out.put("z", i, {0});
               }),
               std::logic_error)
      << "x is an input";
}

TEST(Oracle, AcceptsCorrectOutputs) {
  const Verdict v = Case().verdict();
  EXPECT_TRUE(v.ok) << v.detail;
  EXPECT_EQ(v.detail, "");
  EXPECT_EQ(v.max_abs_err, 0);
}

TEST(Oracle, SeesNan) {
  Case c;
  c.y()[4] = std::nanf("");
  EXPECT_FALSE(c.verdict().ok);
  EXPECT_EQ(c.verdict().detail, "1 of 10 elements of 'y' were not written or are NaN");
}

TEST(Oracle, SeesUnwrittenElements) {
  Case c;
  c.set.reset_outputs(c.oracle.specs(), c.oracle.seed());
  EXPECT_EQ(c.verdict().detail, "10 of 10 elements of 'y' were not written or are NaN");
  Case d;
  d.z()[9] = -1;  // the poison of integers
  EXPECT_EQ(d.verdict().detail, "1 of 10 elements of 'z' were not written or are NaN");
}

TEST(Oracle, SeesOneWrongElement) {
  Case c;
  const float right = c.y()[kCount - 1];
  c.y()[kCount - 1] = right + 0.25f;
  const Verdict v = c.verdict();
  EXPECT_FALSE(v.ok);
  EXPECT_TRUE(v.detail.starts_with("'y'[9] is ")) << v.detail;
  EXPECT_NEAR(v.max_abs_err, 0.25, 1e-6);
  EXPECT_GT(v.rel_l2_err, 0.01);
}

TEST(Oracle, NamesTheWrongTensor) {
  Op op = twice();
  const Op before = op;
  op.tensors = [=](const Problem& p, std::uint64_t seed) {
    auto specs = before.tensors(p, seed);
    specs.push_back({.name = "rounded", .dtype = DType::fp32, .shape = {1}, .role = Role::output});
    return specs;
  };
  op.reference = [=](const Problem& p, const Inputs& inputs, std::int64_t unit, Expected& expected) {
    before.reference(p, inputs, unit, expected);
    if (unit == 0) expected.put("rounded", 0, {1.0});
  };
  Case c(op);
  *static_cast<float*>(c.set.addresses()[3]) = std::nextafter(1.0f, 2.0f);
  EXPECT_TRUE(c.verdict().ok) << c.verdict().detail;
  c.y()[3] += 0.25f;
  EXPECT_TRUE(c.verdict().detail.starts_with("'y'[3] is ")) << c.verdict().detail;
}

TEST(Oracle, SeesOneWrongInteger) {
  Case c;
  c.z()[6] = 7;
  EXPECT_EQ(c.verdict().detail, "'z'[6] is 7, should be 6");
}

/// The index of an element of y as it was written: the reference does not set it.
TEST(Oracle, ComparesWhatFollowsFromOtherOutputs) {
  Op op = twice();
  op.tensors = [tensors = op.tensors](const Problem& p, std::uint64_t seed) {
    auto specs = tensors(p, seed);
    specs.push_back({.name = "largest",
                     .dtype = DType::int32,
                     .shape = {1},
                     .role = Role::output,
                     .derive = [](const ReadOutput& read) {
                       const auto y = read("y", 2, kCount - 2);
                       return std::vector{2.0 + static_cast<double>(std::ranges::max_element(y) - y.begin())};
                     }});
    return specs;
  };
  Case c(op);
  c.y()[7] = 5 + c.y()[7];  // y has an error of its own
  const auto largest = [&]() -> std::int32_t& { return *static_cast<std::int32_t*>(c.set.addresses()[3]); };
  largest() = 7;
  EXPECT_TRUE(c.verdict().detail.starts_with("'y'[7] is ")) << c.verdict().detail;
  largest() = 6;
  EXPECT_EQ(c.verdict().detail, "'largest'[0] is 6, should be 7");
  largest() = -1;
  EXPECT_EQ(c.verdict().detail, "1 of 1 elements of 'largest' were not written or are NaN");
}

TEST(Oracle, ForgivesRounding) {
  Case c;
  c.y()[0] = std::nextafter(c.y()[0], 10.0f);
  const Verdict v = c.verdict();
  EXPECT_TRUE(v.ok);
  EXPECT_GT(v.max_abs_err, 0);
}

TEST(Oracle, SeesWritesBeforeAndBehindEveryTensor) {
  for (const bool behind : {false, true})
    for (int t = 0; t < 3; ++t) {
      Case c;
      auto* bytes = static_cast<unsigned char*>(c.set.addresses()[static_cast<std::size_t>(t)]);
      bytes[behind ? kCount * 4 : -1] = 0;
      EXPECT_EQ(c.set.broken_guard_band(), std::string(1, "xyz"[t]));
      EXPECT_FALSE(c.verdict().ok);
      EXPECT_EQ(c.verdict().detail, "memory outside '" + std::string(1, "xyz"[t]) + "' was written");
    }
}

TEST(Oracle, AcceptsAnyOfSeveralRightAnswers) {
  Op op = twice();
  op.reference = [](const Problem&, const Inputs& inputs, std::int64_t unit, Expected& expected) {
    expected.put("y", unit, {2 * inputs["x"][unit]});
    expected.put("z", unit, {static_cast<double>(unit)}, {100, 200});
  };
  Case c(op);
  c.z()[3] = 200;
  EXPECT_TRUE(c.verdict().ok) << c.verdict().detail;
  c.z()[3] = 201;
  EXPECT_FALSE(c.verdict().ok);
}

TEST(Oracle, InfinityMustMatchExactly) {
  Op op = twice();
  op.reference = [](const Problem&, const Inputs& inputs, std::int64_t unit, Expected& expected) {
    expected.put("y", unit, {unit == 5 ? -INFINITY : 2 * inputs["x"][unit]});
    expected.put("z", unit, {static_cast<double>(unit)});
  };
  Case c(op);
  EXPECT_FALSE(c.verdict().ok);
  c.y()[5] = -std::numeric_limits<float>::infinity();
  EXPECT_TRUE(c.verdict().ok) << c.verdict().detail;
  c.y()[5] = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(c.verdict().ok);
  c.y()[5] = -std::numeric_limits<float>::max();
  EXPECT_FALSE(c.verdict().ok);
}

TEST(Oracle, AnUnexpectedInfinityIsWrong) {
  Case c;
  c.y()[2] = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(c.verdict().ok);
}

TEST(Oracle, ASparseOutputMayKeepPoison) {
  Op op = twice();
  const auto tensors = op.tensors;
  op.tensors = [=](const Problem& p, std::uint64_t seed) {
    auto specs = tensors(p, seed);
    specs[1].sparse = true;
    return specs;
  };
  op.reference = [](const Problem&, const Inputs& inputs, std::int64_t unit, Expected& expected) {
    if (unit != 4) expected.put("y", unit, {2 * inputs["x"][unit]});
    expected.put("z", unit, {static_cast<double>(unit)});
  };
  Case c(op);
  c.y()[4] = std::nanf("");
  EXPECT_TRUE(c.verdict().ok) << c.verdict().detail;
  c.y()[5] = std::nanf("");
  EXPECT_FALSE(c.verdict().ok);
}

TEST(Oracle, ASampleOfUnitsIncludesTheFirstAndTheLast) {
  constexpr std::int64_t kMany = 1'000'000;
  std::set<std::int64_t> seen;
  std::mutex mutex;
  Op op = twice(kMany);
  op.reference = [&](const Problem&, const Inputs&, std::int64_t unit, Expected&) {
    const std::lock_guard lock(mutex);
    seen.insert(unit);
  };
  const Oracle oracle(op, Problem{.op = "twice"}, 3, 1e5);
  EXPECT_TRUE(seen.contains(0));
  EXPECT_TRUE(seen.contains(kMany - 1));
  EXPECT_GE(seen.size(), 100u);
  EXPECT_LE(seen.size(), 1000u);  // 1e5 / 100 evaluations
}

}  // namespace
}  // namespace warptune
