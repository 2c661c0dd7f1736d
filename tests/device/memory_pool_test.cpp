#include "harness/device/memory_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

#include "harness/core/error.h"
#include "harness/device/caching_pool.h"
#include "harness/device/device.h"
#if WARPTUNE_HAS_CUDA
#include <cuda_runtime_api.h>

#include "harness/device/cuda_pools.h"
#endif

namespace warptune {
namespace {

constexpr std::size_t KiB = 1 << 10, MiB = 1 << 20;

/// The calls of the fake device.
struct Counts {
  std::size_t capacity = 1024 * MiB;
  std::size_t held = 0, allocations = 0, frees = 0, trims = 0;
};

/// A device with increasing addresses; its memory is never accessed.
class FakeUpstream : public Upstream {
 public:
  explicit FakeUpstream(Counts& counts) : counts_(counts) {}
  void* allocate(std::size_t bytes) override {
    if (counts_.held + bytes > counts_.capacity) return nullptr;
    counts_.held += bytes;
    ++counts_.allocations;
    void* data = reinterpret_cast<void*>(next_);
    live_[data] = bytes;
    next_ += bytes;
    return data;
  }
  void free(void* data) noexcept override {
    counts_.held -= live_.at(data);
    ++counts_.frees;
    live_.erase(data);
  }
  std::size_t free_bytes() const override { return counts_.capacity - counts_.held; }
  void trim() override { ++counts_.trims; }

 private:
  Counts& counts_;
  std::map<void*, std::size_t> live_;
  std::uintptr_t next_ = 1 << 20;  // segments are adjacent, so that a merge across them would be detected
};

struct CachingPoolTest : ::testing::Test {
  Counts device;
  CachingPool pool{std::make_unique<FakeUpstream>(device)};
};

std::uintptr_t address(void* data) { return reinterpret_cast<std::uintptr_t>(data); }

TEST_F(CachingPoolTest, RoundsToTheAlignmentAndGivesEveryRequestItsOwnMemory) {
  void* a = pool.allocate(1);
  void* b = pool.allocate(257);
  void* c = pool.allocate(0);
  EXPECT_EQ(address(a) % 256, 0u);
  EXPECT_EQ(address(b) - address(a), 256u);
  EXPECT_EQ(address(c) - address(b), 512u);
  EXPECT_EQ(pool.stats().in_use, 1024u);
  EXPECT_EQ(device.allocations, 1u);
}

TEST_F(CachingPoolTest, SmallAndLargeRequestsHaveSeparateArenas) {
  void* small = pool.allocate(MiB);
  pool.release(small);
  pool.allocate(MiB + 1);
  EXPECT_EQ(device.allocations, 2u);
  EXPECT_EQ(pool.allocate(KiB), small);
  EXPECT_EQ(device.allocations, 2u);
}

TEST_F(CachingPoolTest, ReleasedMemoryIsReused) {
  void* a = pool.allocate(8 * MiB);
  pool.release(a);
  EXPECT_EQ(device.frees, 0u);
  EXPECT_EQ(pool.allocate(8 * MiB), a);
  EXPECT_EQ(pool.stats().misses, 1u);
  EXPECT_EQ(pool.stats().requests, 2u);
}

TEST_F(CachingPoolTest, TakesTheSmallestFreeBlockThatHoldsTheRequest) {
  void* large = pool.allocate(64 * MiB);
  void* fitting = pool.allocate(16 * MiB);
  pool.release(large);
  pool.release(fitting);
  EXPECT_EQ(pool.allocate(15 * MiB), fitting);
}

TEST_F(CachingPoolTest, SplitsBlocksAndMergesNeighbors) {
  void* complete = pool.allocate(12 * MiB);
  pool.release(complete);
  void* a = pool.allocate(4 * MiB);
  void* b = pool.allocate(4 * MiB);
  void* c = pool.allocate(4 * MiB);
  EXPECT_EQ(a, complete);
  EXPECT_EQ(address(c) - address(a), 8 * MiB);
  EXPECT_EQ(device.allocations, 1u);
  pool.release(a);
  pool.release(c);
  pool.release(b);  // merges with both
  EXPECT_EQ(pool.allocate(12 * MiB), complete);
  EXPECT_EQ(device.allocations, 1u);
}

TEST_F(CachingPoolTest, NeverMergesAcrossSegments) {
  void* a = pool.allocate(2 * MiB);
  void* b = pool.allocate(2 * MiB);
  ASSERT_EQ(address(b) - address(a), 2 * MiB);  // the fake's segments are adjacent
  pool.release(a);
  pool.release(b);
  pool.allocate(4 * MiB);
  EXPECT_EQ(device.allocations, 3u);
}

TEST_F(CachingPoolTest, ReturnsSmallSegmentsPastTheThreshold) {
  std::vector<void*> blocks(100);
  for (void*& b : blocks) b = pool.allocate(MiB);
  EXPECT_EQ(device.held, 100 * MiB);
  for (void* b : blocks) pool.release(b);
  EXPECT_EQ(pool.stats().in_use, 0u);
  EXPECT_LE(device.held, 32 * MiB);
  EXPECT_GE(device.held, 30 * MiB);
  EXPECT_EQ(pool.stats().reserved, device.held);
}

TEST_F(CachingPoolTest, TrimReturnsFreeSegments) {
  void* large = pool.allocate(100 * MiB);
  void* kept = pool.allocate(40 * MiB);
  void* small = pool.allocate(KiB);
  pool.release(large);
  pool.release(small);
  pool.trim();
  EXPECT_EQ(device.held, 40 * MiB);
  EXPECT_EQ(pool.stats().reserved, 40 * MiB);
  pool.release(kept);
}

TEST_F(CachingPoolTest, TrimsAndRetriesOnAFullDevice) {
  device.capacity = 100 * MiB;
  pool.release(pool.allocate(60 * MiB));
  EXPECT_NE(pool.allocate(80 * MiB), nullptr);
  EXPECT_EQ(device.held, 80 * MiB);
}

TEST_F(CachingPoolTest, OutOfMemoryReportsSizesAndKeepsThePoolUsable) {
  device.capacity = 100 * MiB;
  void* a = pool.allocate(60 * MiB);
  try {
    pool.allocate(50 * MiB);
    FAIL() << "no error";
  } catch (const ResourceError& e) {
    EXPECT_THAT(e.what(), ::testing::HasSubstr("50.0 MiB are needed, 40.0 MiB are free"));
  }
  EXPECT_EQ(pool.stats().in_use, 60 * MiB);
  EXPECT_NE(pool.allocate(30 * MiB), nullptr);
  pool.release(a);
  EXPECT_THROW(pool.allocate(~std::size_t{0}), ResourceError);
}

TEST_F(CachingPoolTest, DoubleReleaseAndForeignMemoryAreErrors) {
  void* a = pool.allocate(KiB);
  void* b = pool.allocate(KiB);
  int foreign = 0;
  EXPECT_THROW(pool.release(&foreign), std::logic_error);
  EXPECT_THROW(pool.release(nullptr), std::logic_error);
  EXPECT_THROW(pool.release(static_cast<std::byte*>(a) + 256), std::logic_error);
  pool.release(a);
  EXPECT_THROW(pool.release(a), std::logic_error);
  pool.release(b);
  EXPECT_THROW(pool.release(b), std::logic_error);  // merged by now
  EXPECT_EQ(pool.stats().in_use, 0u);
}

TEST(CachingPool, ReturnsEverythingAtDestruction) {
  Counts device;
  {
    CachingPool pool(std::make_unique<FakeUpstream>(device));
    pool.allocate(KiB);
    pool.release(pool.allocate(50 * MiB));
  }
  EXPECT_EQ(device.held, 0u);
  EXPECT_EQ(device.allocations, device.frees);
}

TEST_F(CachingPoolTest, RandomOperationsNeverOverlapAndAllIsReturned) {
  std::mt19937_64 random(42);
  struct Live {
    std::uintptr_t end;
    std::size_t bytes;
  };
  std::map<std::uintptr_t, Live> live;
  std::size_t in_use = 0;
  for (int step = 0; step < 20000; ++step) {
    if (live.empty() || random() % 100 < 52) {
      const std::size_t bytes = random() % (std::size_t{1} << (random() % 25));
      void* data = nullptr;
      try {
        data = pool.allocate(bytes);
      } catch (const ResourceError&) {
        continue;
      }
      const auto rounded = round_up(bytes, 256);
      const auto begin = address(data), end = begin + rounded;
      ASSERT_EQ(begin % 256, 0u);
      const auto next = live.lower_bound(begin);
      if (next != live.end()) {
        ASSERT_LE(end, next->first);
      }
      if (next != live.begin()) {
        ASSERT_LE(std::prev(next)->second.end, begin);
      }
      live[begin] = {end, rounded};
      in_use += rounded;
    } else {
      auto it = live.lower_bound((std::uintptr_t{1} << 20) + random() % (2048 * MiB));
      if (it == live.end()) it = live.begin();
      in_use -= it->second.bytes;
      pool.release(reinterpret_cast<void*>(it->first));
      live.erase(it);
    }
    if (step % 1000 == 0) pool.trim();
    ASSERT_EQ(pool.stats().in_use, in_use);
    ASSERT_EQ(pool.stats().reserved, device.held);
  }
  for (const auto& [data, block] : live) pool.release(reinterpret_cast<void*>(data));
  EXPECT_EQ(pool.stats().in_use, 0u);
  pool.trim();
  EXPECT_EQ(device.held, 0u);
  EXPECT_EQ(device.allocations, device.frees);
}

TEST_F(CachingPoolTest, ThreadsShareIt) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      std::mt19937 random(static_cast<unsigned>(t));
      for (int i = 0; i < 500; ++i) {
        void* a = pool.allocate(random() % (3 * MiB));
        void* b = pool.allocate(random() % KiB);
        pool.release(a);
        pool.release(b);
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(pool.stats().in_use, 0u);
  EXPECT_EQ(pool.stats().requests, 4000u);
}

TEST(PassThroughPool, PassesEveryRequestOn) {
  Counts device;
  PassThroughPool pool(std::make_unique<FakeUpstream>(device));
  void* a = pool.allocate(1000);
  EXPECT_EQ(device.held, 1024u);
  pool.release(a);
  EXPECT_EQ(device.held, 0u);
  EXPECT_EQ(device.frees, 1u);
  EXPECT_EQ(pool.stats().misses, 1u);
  EXPECT_THROW(pool.release(a), std::logic_error);
}

TEST(PassThroughPool, TrimsUpstreamBeforeItGivesUp) {
  Counts device{.capacity = MiB};
  PassThroughPool pool(std::make_unique<FakeUpstream>(device));
  EXPECT_THROW(pool.allocate(2 * MiB), ResourceError);
  EXPECT_EQ(device.trims, 1u);
}

TEST(HostPool, GivesAlignedUsableMemory) {
  const auto pool = make_host_pool();
  void* data = pool->allocate(1001);
  EXPECT_EQ(address(data) % 256, 0u);
  std::memset(data, 1, 1001);
  EXPECT_EQ(pool->stats().in_use, 1024u);
  pool->release(data);
  EXPECT_EQ(pool->stats().in_use, 0u);
  EXPECT_THROW(pool->allocate(std::size_t{1} << 60), ResourceError);
}

#if WARPTUNE_HAS_CUDA
class GpuMemoryPool : public ::testing::TestWithParam<PoolKind> {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
  }
};

TEST_P(GpuMemoryPool, GivesAlignedUsableMemoryAndTakesItBack) {
  const auto pool = make_cuda_pool(GetParam(), 0);
  std::mt19937 random(1);
  std::map<void*, std::pair<std::size_t, unsigned char>> live;
  for (int i = 0; i < 60; ++i) {
    const std::size_t bytes = 1 + random() % (4 * MiB);
    void* data = pool->allocate(bytes);
    ASSERT_EQ(address(data) % 256, 0u);
    const auto mark = static_cast<unsigned char>(i + 1);
    ASSERT_EQ(cudaMemset(data, mark, bytes), cudaSuccess);
    live[data] = {bytes, mark};
    if (i % 3 == 2) {
      ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
      pool->release(live.begin()->first);
      live.erase(live.begin());
    }
  }
  for (const auto& [data, block] : live) {
    std::vector<unsigned char> host(block.first);
    ASSERT_EQ(cudaMemcpy(host.data(), data, block.first, cudaMemcpyDeviceToHost), cudaSuccess);
    EXPECT_THAT(host, ::testing::Each(block.second));
  }
  EXPECT_GT(pool->stats().in_use, 0u);
  for (const auto& [data, block] : live) pool->release(data);
  pool->trim();
  EXPECT_EQ(pool->stats().in_use, 0u);
  EXPECT_EQ(pool->stats().reserved, 0u);
  EXPECT_EQ(pool->stats().requests, 60u);
}

TEST_P(GpuMemoryPool, TooMuchIsOneSentenceAndNoStickyError) {
  const auto pool = make_cuda_pool(GetParam(), 0);
  EXPECT_THROW(pool->allocate(std::size_t{1} << 50), ResourceError);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  pool->release(pool->allocate(MiB));
}

INSTANTIATE_TEST_SUITE_P(Kinds, GpuMemoryPool,
                         ::testing::Values(PoolKind::caching, PoolKind::cuda_async, PoolKind::cuda_plain));

TEST(CudaPools, KindsHaveNames) {
  EXPECT_EQ(parse_pool_kind("cuda_async"), PoolKind::cuda_async);
  EXPECT_THROW(parse_pool_kind("fast"), InputError);
}

// A check of what fits counts it: the model before this one has left its memory in the pool.
TEST(GpuCachingPool, FreeBytesCountWhatThePoolKeeps) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
  const auto device = open_device("cuda:0");
  const std::size_t before = device->free_bytes();
  constexpr std::size_t kBytes = std::size_t{1} << 30;
  Buffer buffer = device->allocate(kBytes);
  EXPECT_LE(device->free_bytes(), before - kBytes / 2);
  buffer = Buffer();
  EXPECT_GE(device->free_bytes(), before - kBytes / 2);
}
#endif

}  // namespace
}  // namespace warptune
