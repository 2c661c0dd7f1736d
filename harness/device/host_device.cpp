#include "harness/device/host_device.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <system_error>
#include <thread>

#include "harness/core/brief.h"
#include "harness/core/error.h"
#include "harness/core/random.h"
#include "harness/core/text.h"
#include "harness/core/variant_values.h"
#include "harness/device/host_memory.h"
#include "harness/device/memory_pool.h"
#include "harness/device/peer_memory.h"

namespace warptune {
namespace {

constexpr std::int64_t kMaxCacheMib = 4096;

/// Hashes a word and its index (the finalizer of SplitMix64, Steele, Lea and Flood, 2014).
std::uint64_t scramble(std::uint64_t word, std::uint64_t index) {
  std::uint64_t z = word + index * 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

/// The size of the last-level cache that one core can use, or WARPTUNE_HOST_CACHE_MIB. Linux gives it in
/// sysfs ("32768K"). The C library returns the sum over a package on some machines and is only the second
/// choice; 32 MiB if neither knows it.
std::int64_t last_level_cache_bytes() {
  if (const char* given = std::getenv("WARPTUNE_HOST_CACHE_MIB")) {
    const auto mib = parse_number<std::int64_t>(given);
    if (!mib || *mib < 1 || *mib > kMaxCacheMib)
      throw InputError("WARPTUNE_HOST_CACHE_MIB is '{}'; it must be an integer from 1 to {}", brief(given),
                       kMaxCacheMib);
    return *mib << 20;
  }
  std::ifstream in("/sys/devices/system/cpu/cpu0/cache/index3/size");
  std::int64_t size = 0;
  char unit = 0;
  if (in >> size >> unit && size > 0 && (unit == 'K' || unit == 'M')) return size << (unit == 'K' ? 10 : 20);
  const long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
  return cache > 0 ? cache : 32 << 20;
}

/// Memory of this rank, and that of the others: files in shared memory, which have no names once all ranks
/// have mapped them.
std::vector<void*> map_host_memory(RankGroup& group, std::size_t bytes) {
  const auto path_of = [&](int rank) { return fmt::format("/warptune-{}-memory-{}", group.name(), rank); };
  const auto map = [&](int rank, int flags) {
    const int file = ::shm_open(path_of(rank).c_str(), O_RDWR | O_CLOEXEC | flags, 0600);
    const bool sized = file >= 0 && (flags == 0 || ::ftruncate(file, static_cast<off_t>(bytes)) == 0);
    void* const mapped =
        sized ? ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
    const int error = errno;
    if (file >= 0) ::close(file);
    if (mapped == MAP_FAILED)
      throw std::system_error(error, std::generic_category(), "cannot map '/dev/shm" + path_of(rank) + "'");
    return mapped;
  };
  void* const mine = map(group.rank(), O_CREAT | O_TRUNC);
  group.barrier();
  std::vector<void*> memory;
  for (int rank = 0; rank < group.ranks(); ++rank)
    memory.push_back(rank == group.rank() ? mine : map(rank, 0));
  group.barrier();
  ::shm_unlink(path_of(group.rank()).c_str());
  return memory;
}

class HostPlan : public Plan {
 public:
  HostPlan(HostFunction run, std::int64_t workspace) : run_(std::move(run)), workspace_(workspace) {}
  void launch(const void* args, Stream) const override { run_(args); }
  std::int64_t workspace_bytes() const override { return workspace_; }

 private:
  HostFunction run_;
  std::int64_t workspace_;
};

class HostDevice : public Device {
 public:
  explicit HostDevice(std::shared_ptr<RankGroup> ranks) : Device(std::move(ranks)) {
    utsname system{};
    uname(&system);
    facts_.backend = Backend::host;
    facts_.name = facts_.id = "host";
    facts_.arch = system.machine;
    facts_.sms = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    facts_.l2_bytes = last_level_cache_bytes();
    facts_.memory_bytes = static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE);
    if (group() && group()->ranks() > 1)
      peer_memory_.emplace(
          *group(), [this](std::size_t bytes) { return map_host_memory(*group(), bytes); },
          [](void* memory, std::size_t bytes) { std::memset(memory, 0, bytes); });
  }

  const DeviceFacts& facts() const override { return facts_; }
  void set_peaks(const DeviceFacts& measured) override { facts_.set_peaks(measured); }

  Buffer allocate(std::size_t bytes) override {
    return Buffer(pool_->allocate(bytes), bytes, [pool = pool_](void* p) { pool->release(p); });
  }
  std::size_t free_bytes() const override { return available_host_bytes(); }
  Stream stream() const override { return {}; }
  void upload(void* to, const void* from, std::size_t bytes, Stream) override {
    std::memcpy(to, from, bytes);
  }
  void download(void* to, const void* from, std::size_t bytes) override { std::memcpy(to, from, bytes); }
  void set_bytes(void* to, int byte, std::size_t bytes, Stream) override { std::memset(to, byte, bytes); }
  void synchronize() override {}
  void wait_for_all() override {}

  void fill_random(void* to, DType dtype, std::int64_t count, std::uint64_t seed, float scale,
                   const RowsWithin& rows) override {
    for (std::int64_t i = 0; i < count; ++i)
      store(dtype, to, i, random_value(seed, static_cast<std::uint64_t>(rows.index(i)), scale));
  }
  std::int64_t count_poisoned(const void* data, DType dtype, std::int64_t count) override {
    std::int64_t n = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      const double x = load(dtype, data, i);
      n += is_float(dtype) ? std::isnan(x) : x == poison_value(dtype);
    }
    return n;
  }
  ElementErrors compare(const CompareArgs& e, DType dtype) override {
    ElementErrors errors;
    for (long long i = 0; i < e.count; ++i)
      add_error(errors, load(dtype, e.data, e.index[i]), e.want[i], e.slack[i], e.is_exact, i);
    return errors;
  }
  std::vector<std::uint64_t> checksums(std::span<const Region> regions) override {
    std::vector<std::uint64_t> sums;
    for (const Region& region : regions) {
      const auto* bytes = static_cast<const unsigned char*>(region.data);
      const std::size_t words = region.bytes / 8;
      std::uint64_t sum = 0, word = 0;
      for (std::size_t i = 0; i < words; ++i) {
        std::memcpy(&word, bytes + 8 * i, 8);
        sum += scramble(word, i);
      }
      for (std::size_t i = 8 * words; i < region.bytes; ++i) sum += scramble(bytes[i], ~i);
      sums.push_back(sum);
    }
    return sums;
  }
  void flush_cache(Stream) override {
    flush_.resize(static_cast<std::size_t>(2 * facts_.l2_bytes));
    unsigned seen = 0;
    for (std::size_t i = 0; i < flush_.size(); i += 64) seen += flush_[i];
    seen_ = seen;
  }

  std::unique_ptr<Plan> prepare(const Variant& variant, const Problem& problem,
                                const Config& config) override {
    if (!variant.host && !variant.host_ranks)
      throw InputError("variant '{}/{}' does not run on the host device", problem.op, variant.name);
    expect_ranks(*this, problem);
    const std::int64_t workspace = bytes_of(variant.workspace, variant, problem, config);
    if (variant.host) return std::make_unique<HostPlan>(variant.host(problem, config), workspace);
    const auto bytes = static_cast<std::size_t>(bytes_of(variant.peer_workspace, variant, problem, config));
    return std::make_unique<HostPlan>(
        [run = variant.host_ranks(problem, config), peers = peer_memory_->allocate(bytes)](const void* args) {
          run(args, *peers);
        },
        workspace);
  }
  std::unique_ptr<CapturedGraph> record(const std::function<void(Stream)>& body) override {
    return std::make_unique<FunctionGraph>(body);
  }
  double time_us(CapturedGraph& graph) override {
    if (group()) group()->barrier();
    const auto start = std::chrono::steady_clock::now();
    graph.launch({});
    return largest(
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
  }
  Clocks clocks() const override { return {}; }

 private:
  DeviceFacts facts_;
  std::shared_ptr<MemoryPool> pool_ = make_host_pool();
  std::vector<unsigned char> flush_;
  volatile unsigned seen_ = 0;             // keeps the compiler from removing the reads of a flush
  std::optional<PeerMemory> peer_memory_;  // set where this device is one of several ranks
};

}  // namespace

OwnedDevice make_host_device(std::shared_ptr<RankGroup> group) {
  return OwnedDevice(std::make_unique<HostDevice>(std::move(group)));
}

}  // namespace warptune
