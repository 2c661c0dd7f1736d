// The analysis of calibration points; its kernels compile and run.
#include "harness/measure/calibrate.h"

#include <gtest/gtest.h>

#include "harness/device/compile.h"

namespace warptune {
namespace {

TEST(Calibrate, FindsWhereTimeStopsRising) {
  const std::vector<RotationPoint> points = {{1, 1.0}, {2, 1.0}, {3, 1.5}, {4, 1.98}, {5, 2.01}, {6, 2.0}};
  EXPECT_EQ(where_time_stops_rising(points), 4);
  EXPECT_EQ(where_time_stops_rising(points, 0.3), 3);
  EXPECT_EQ(where_time_stops_rising(std::vector<RotationPoint>{{7, 1}}), 7);
  EXPECT_EQ(where_time_stops_rising({}), 0);
}

TEST(Calibrate, KernelsCompile) {
#if !WARPTUNE_HAS_CUDA
  GTEST_SKIP() << "no CUDA in this build";
#else
  const Compiler compiler(KernelSources(), default_cache_folder());
  for (const char* arch : {"sm_80", "sm_90a"}) {
    for (const char* kernel :
         {"stream_write<4>", "stream_read<4>", "stream_read<8, 64>", "empty", "empty_dependent"})
      EXPECT_NO_THROW(compiler.compile("support/stream.cu", kernel, arch)) << kernel;
    EXPECT_NO_THROW(compiler.compile("support/fill.cu", "checksum", arch));
  }
#endif
}

TEST(GpuCalibrate, IsPlausible) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
  const auto device = open_device("cuda:0");
  const Calibration c = calibrate(*device);
  EXPECT_GT(c.write_gb_per_s, 0.5 * c.facts.read_gb_per_s);
  EXPECT_GT(c.facts.l2_read_gb_per_s, c.facts.read_gb_per_s);
  EXPECT_GT(c.launch_us, 0.5);
  EXPECT_GT(c.graph_node_us, 0.1);
  ASSERT_FALSE(c.rotation.empty());
  EXPECT_GT(c.rotation.back().us, c.rotation.front().us);
}

TEST(GpuChecksums, DetectOneChangedByteAndItsPosition) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
  const auto device = open_device("cuda:0");
  constexpr std::size_t kBytes = 1'000'003;
  const Buffer a = device->allocate(kBytes), b = device->allocate(kBytes);
  for (const Buffer* buffer : {&a, &b}) device->set_bytes(buffer->data(), 7, kBytes, device->stream());
  const auto both = [&] {
    return device->checksums(std::vector<Region>{{a.data(), kBytes}, {b.data(), kBytes}});
  };
  const auto before = both();
  EXPECT_EQ(before[0], before[1]);
  for (const std::size_t at : {std::size_t{0}, kBytes / 2, kBytes - 1}) {
    device->set_bytes(a.as<std::byte>() + at, 8, 1, device->stream());
    const auto after = both();
    EXPECT_NE(after[0], before[0]) << at;
    EXPECT_EQ(after[1], before[1]) << at;
    device->set_bytes(a.as<std::byte>() + at, 7, 1, device->stream());
  }
  EXPECT_EQ(both(), before);
}

}  // namespace
}  // namespace warptune
