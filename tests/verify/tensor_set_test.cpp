#include "harness/verify/tensor_set.h"

#include <gtest/gtest.h>

#include <cmath>

#include "harness/core/random.h"
#include "harness/device/host_device.h"

namespace warptune {
namespace {

std::vector<TensorSpec> specs() {
  return {
      {.name = "weight", .dtype = DType::fp32, .shape = {3, 5}, .scale = 0.5f},
      {.name = "x", .dtype = DType::bf16, .shape = {7}, .cache = CacheState::hot},
      {.name = "lengths", .dtype = DType::int32, .shape = {2}, .cache = CacheState::hot, .values = {4, 9}},
      {.name = "cache", .dtype = DType::fp32, .shape = {4}, .role = Role::inout},
      {.name = "y", .dtype = DType::fp16, .shape = {3}, .role = Role::output}};
}

class TensorSetTest : public ::testing::Test {
 protected:
  double value(const TensorSet& set, std::size_t tensor, std::int64_t i) const {
    return load(specs_[tensor].dtype, set.addresses()[tensor], i);
  }
  std::unique_ptr<Device> device_ = make_host_device();
  std::vector<TensorSpec> specs_ = specs();
};

TEST_F(TensorSetTest, FillsTheInputsOfTheReference) {
  TensorSet set(*device_, specs_);
  set.fill(specs_, 11);
  const Inputs inputs(specs_, 11);
  for (const std::size_t t : {0u, 1u, 2u, 3u})
    for (std::int64_t i = 0; i < specs_[t].count(); ++i)
      EXPECT_EQ(value(set, t, i), inputs[specs_[t].name][i]) << specs_[t].name << " " << i;
  EXPECT_EQ(value(set, 2, 1), 9);
  EXPECT_TRUE(std::isnan(value(set, 4, 0)));
  EXPECT_EQ(set.broken_guard_band(), "");
}

TEST_F(TensorSetTest, ResetRestoresOutputsOnly) {
  TensorSet set(*device_, specs_);
  set.fill(specs_, 11);
  const double before = value(set, 3, 2);
  store(DType::fp32, set.addresses()[0], 0, 42);
  store(DType::fp32, set.addresses()[3], 2, 42);
  store(DType::fp16, set.addresses()[4], 1, 42);
  set.reset_outputs(specs_, 11);
  EXPECT_EQ(value(set, 0, 0), 42);
  EXPECT_EQ(value(set, 3, 2), before);
  EXPECT_TRUE(std::isnan(value(set, 4, 1)));
}

TEST_F(TensorSetTest, HotTensorsAreSharedAndColdOnesAreNot) {
  TensorSet first(*device_, specs_);
  const TensorSet second(*device_, specs_, &first);
  for (std::size_t t = 0; t < specs_.size(); ++t)
    EXPECT_EQ(first.addresses()[t] == second.addresses()[t], specs_[t].cache == CacheState::hot)
        << specs_[t].name;
}

TEST_F(TensorSetTest, GuardBandsAreOnBothSidesOfEveryTensor) {
  for (const int offset : {-256, -1, 0, 255})  // from the tensor's start or end
    for (std::size_t t = 0; t < specs_.size(); ++t) {
      TensorSet first(*device_, specs_);
      first.fill(specs_, 11);
      TensorSet second(*device_, specs_, &first);
      second.fill(specs_, 11);
      EXPECT_EQ(second.broken_guard_band(), "");
      auto* bytes = static_cast<unsigned char*>(second.addresses()[t]);
      bytes[offset < 0 ? offset : specs_[t].bytes() + offset] = 1;
      EXPECT_EQ(second.broken_guard_band(), specs_[t].name) << offset;
      // The guard band of a shared tensor counts for both sets.
      EXPECT_EQ(first.broken_guard_band(), specs_[t].cache == CacheState::hot ? specs_[t].name : "")
          << offset;
      second.fill(specs_, 11);
      EXPECT_EQ(second.broken_guard_band(), "");
    }
}

}  // namespace
}  // namespace warptune
