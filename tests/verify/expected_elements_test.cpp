// A device finds the errors of an output that a plain loop over the expected values finds.
#include "harness/verify/expected_elements.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "harness/verify/oracle.h"
#include "tests/measure/forwarding_device.h"

namespace warptune {
namespace {

struct ElementsCase {
  TensorSpec spec;
  std::vector<std::byte> got;
  Expected expected;
};

/// Every second element is expected, in runs of 7. `spoil` changes a few elements of the output.
ElementsCase sample(DType dtype, std::int64_t count,
                    const std::function<void(std::vector<double>&)>& spoil = {}) {
  std::mt19937_64 random(count);
  ElementsCase c{.spec = {.name = "y", .dtype = dtype, .shape = {count}, .role = Role::output}};
  std::vector<double> want, got;
  for (std::int64_t i = 0; i < count; ++i) {
    want.push_back(round_to(dtype, static_cast<float>(static_cast<int>(random() % 200)) * 0.5f - 50));
    got.push_back(i % 5 == 0 && !is_exact(dtype) ? want.back() * 1.01 : want.back());
  }
  if (spoil) spoil(got);
  c.got.resize(static_cast<std::size_t>(count) * size_of(dtype));
  for (std::int64_t i = 0; i < count; ++i) store(dtype, c.got.data(), i, got[static_cast<std::size_t>(i)]);
  for (std::int64_t first = 0; first < count; first += 14)
    c.expected.put("y", first, {want.begin() + first, want.begin() + std::min(first + 7, count)});
  c.expected.put("another", 0, {1e9});
  return c;
}

ElementErrors on(Device& device, const ElementsCase& c) {
  const Buffer there = device.allocate(c.got.size());
  device.upload(there.data(), c.got.data(), c.got.size(), device.stream());
  device.synchronize();
  return ExpectedElements(device, c.spec, c.expected.runs()).compare(there.data());
}

/// The plain loop.
ElementErrors by_hand(const ElementsCase& c) {
  ElementErrors errors;
  long long element = 0;
  for (const Expected::Run& run : c.expected.runs())
    for (std::size_t i = 0; run.tensor == "y" && i < run.values.size(); ++i, ++element) {
      const double got = load(c.spec.dtype, c.got.data(), run.first + static_cast<std::int64_t>(i));
      const double want = run.values[i];
      if (is_exact(c.spec.dtype) ? got != want : std::isnan(got)) {
        errors.unequal = std::min(errors.unequal, element);
        continue;
      }
      const double error = std::max(0.0, std::abs(got - want) - rounding_error(c.spec.dtype, want));
      errors.squares += error * error;
      if (error > errors.largest) {
        errors.largest = error;
        errors.worst = element;
      }
    }
  return errors;
}

void expect_same(const ElementErrors& a, const ElementErrors& b, const std::string& what) {
  EXPECT_EQ(a.largest, b.largest) << what;
  EXPECT_EQ(a.worst, b.worst) << what;
  EXPECT_EQ(a.unequal, b.unequal) << what;
  EXPECT_NEAR(a.squares, b.squares, 1e-12 * b.squares) << what << ": the order of the sum";
}

constexpr DType kOutputs[] = {DType::fp32, DType::fp16,  DType::bf16, DType::int32,
                              DType::int8, DType::int64, DType::fp64, DType::fp8};

std::vector<ElementsCase> cases(DType dtype) {
  std::vector<ElementsCase> all = {sample(dtype, 3), sample(dtype, 5000), sample(dtype, 300'001)};
  const auto far = [](std::vector<double>& got) { got[4200] = got[14] = 63; };
  all.push_back(sample(dtype, 5000, far));
  if (is_float(dtype))
    all.push_back(sample(dtype, 5000, [](std::vector<double>& got) { got[2800] = got[2801] = NAN; }));
  return all;
}

TEST(ExpectedElements, TheHostFindsTheErrorsOfAPlainLoop) {
  const auto host = open_device("host");
  for (const DType dtype : kOutputs)
    for (const ElementsCase& c : cases(dtype))
      expect_same(on(*host, c), by_hand(c), std::string(name_of(dtype)));
}

TEST(ExpectedElements, InfinityAndNanMustBeWhereTheReferenceHasThem) {
  const auto host = open_device("host");
  const TensorSpec spec{.name = "y", .dtype = DType::fp32, .shape = {4}, .role = Role::output};
  Expected expected;
  expected.put("y", 0, {INFINITY, NAN, 1, -INFINITY});
  const auto unequal = [&](std::vector<float> got) {
    return ExpectedElements(*host, spec, expected.runs()).compare(got.data()).unequal;
  };
  EXPECT_EQ(unequal({INFINITY, NAN, 1, -INFINITY}), ElementErrors::kNone);
  EXPECT_EQ(unequal({-INFINITY, NAN, 1, -INFINITY}), 0);
  EXPECT_EQ(unequal({INFINITY, 1, 1, -INFINITY}), 1);
  EXPECT_EQ(unequal({INFINITY, NAN, NAN, -INFINITY}), 2);
  EXPECT_EQ(unequal({INFINITY, NAN, 1, 3e38f}), 3);
  const std::vector<float> infinite = {INFINITY, NAN, INFINITY, -INFINITY};
  EXPECT_EQ(ExpectedElements(*host, spec, expected.runs()).compare(infinite.data()).largest, INFINITY);
}

/// Lets a test write the expected values, as a kernel could.
class Exposed : public testing::ForwardingDevice {
 public:
  Exposed() : ForwardingDevice(open_device("host")) {}
  ElementErrors compare(const CompareArgs& elements, DType dtype) override {
    last = elements;
    return ForwardingDevice::compare(elements, dtype);
  }
  CompareArgs last{};
};

TEST(ExpectedElements, ThatAKernelHasWrittenAreNotBelieved) {
  Exposed device;
  const Op op{.name = "one",
              .tensors =
                  [](const Problem&, std::uint64_t) {
                    return std::vector<TensorSpec>{
                        {.name = "y", .dtype = DType::fp32, .shape = {4}, .role = Role::output}};
                  },
              .cost = [](const Problem&) { return Cost{}; },
              .units = [](const Problem&) { return std::int64_t{1}; },
              .reference =
                  [](const Problem&, const Inputs&, std::int64_t, Expected& out) {
                    out.put("y", 0, {1, 2, 3, 4});
                  },
              .tolerance = [](const Problem&) { return default_tolerance(DType::fp32); }};
  const Oracle oracle(op, Problem{.op = "one"}, 1);
  TensorSet set(device, oracle.specs());
  set.fill(oracle.specs(), 1);
  auto* const y = static_cast<float*>(set.addresses()[0]);
  for (int i = 0; i < 4; ++i) y[i] = static_cast<float>(i + 1);
  EXPECT_TRUE(oracle.compare(set).ok);
  y[2] = 7;
  EXPECT_FALSE(oracle.compare(set).ok);
  const_cast<double*>(device.last.slack)[2] = 1000;  // the error would not count
  const Verdict fooled = oracle.compare(set);
  EXPECT_FALSE(fooled.ok);
  EXPECT_EQ(fooled.detail, "the expected values of 'y' were written");
  EXPECT_EQ(oracle.compare(set).detail, "'y'[2] is 7, should be 3") << "uploaded again";
}

TEST(GpuExpectedElements, AGpuFindsTheErrorsThatTheHostFinds) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
  const auto host = open_device("host"), gpu = open_device("cuda:0");
  for (const DType dtype : kOutputs)
    for (const ElementsCase& c : cases(dtype))
      expect_same(on(*gpu, c), on(*host, c), std::string(name_of(dtype)));
}

/// Guard bands begin at any byte.
TEST(GpuChecksums, AreThoseOfTheHostAtEveryAlignment) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
  const auto host = open_device("host"), gpu = open_device("cuda:0");
  std::vector<unsigned char> bytes(5000);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>(i * 37 + i / 256);
  const Buffer there = gpu->allocate(bytes.size());
  gpu->upload(there.data(), bytes.data(), bytes.size(), gpu->stream());
  std::vector<Region> on_host, on_gpu;
  for (std::size_t first = 0; first < 9; ++first)
    for (const std::size_t length : {1u, 8u, 4096u, 4099u}) {
      on_host.push_back({bytes.data() + first, length});
      on_gpu.push_back({there.as<std::byte>() + first, length});
    }
  EXPECT_EQ(gpu->checksums(on_gpu), host->checksums(on_host));
}

}  // namespace
}  // namespace warptune
