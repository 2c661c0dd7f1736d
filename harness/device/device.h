#pragma once
// The interface of a device to the harness and the model: memory, plans, captured graphs. CUDA GPUs and the
// host implement it.
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "harness/core/facts.h"
#include "harness/core/variant.h"
#include "harness/device/upload_staging.h"
#include "kernels/support/args.h"

namespace warptune {

/// An ordered queue of work; a null handle on the host.
struct Stream {
  void* handle = nullptr;
};

/// Owns device memory and releases it to its pool. Move-only.
class Buffer {
 public:
  using Release = std::function<void(void*)>;
  Buffer() = default;
  Buffer(void* data, std::size_t bytes, Release release)
      : data_(data), bytes_(bytes), release_(std::move(release)) {}
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer(std::move(other)).swap(*this);
    return *this;
  }
  ~Buffer() {
    if (data_) release_(data_);
  }
  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  void swap(Buffer& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(release_, other.release_);
  }
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
  Release release_;
};

/// The resources of a compiled configuration: the largest over its kernels. Zero where unknown (host,
/// libraries).
struct Resources {
  int registers = 0;              // per thread
  std::int64_t shared_bytes = 0;  // static and dynamic, per block
  std::int64_t spill_bytes = 0;   // stores and loads
  double occupancy_pct = 0;
  double compile_ms = 0;  // 0 for a cached binary
  /// A hash of the machine code of all kernels, the geometry of their launches, the architecture and the
  /// toolkit: the identity of a configuration. Empty on the host and for variants that call a library.
  std::string code_hash = {};
};

/// A variant compiled for a problem and configuration. It can only be launched.
class Plan {
 public:
  virtual ~Plan() = default;
  /// `args` is the op's args.h struct. Its workspace pointer, if the op has one, must be workspace_bytes()
  /// of zeroed memory that no other plan in flight uses.
  virtual void launch(const void* args, Stream stream) const = 0;
  virtual std::int64_t workspace_bytes() const { return 0; }
  virtual Resources resources() const { return {}; }
};

/// A recorded sequence of launches (a CUDA graph; on the host, a function).
class CapturedGraph {
 public:
  virtual ~CapturedGraph() = default;
  /// Enqueues one replay.
  virtual void launch(Stream stream) = 0;
};

/// Clocks, temperature and power during a measurement; NaN or empty where the device does not report them.
struct Clocks {
  double sm_mhz = __builtin_nan(""), mem_mhz = __builtin_nan("");
  double temperature_c = __builtin_nan(""), power_w = __builtin_nan("");
  std::string throttled;  // reasons, "none", or empty where unknown
};

/// A view of device memory.
struct Region {
  const void* data = nullptr;
  std::size_t bytes = 0;
};

/// Elements that lie in rows of `width` within a larger array: the i-th of them is its element first + i /
/// width * stride + i % width.
struct RowsWithin {
  std::int64_t first = 0, width = 0, stride = 0;  // width 0: one row
  std::int64_t index(std::int64_t i) const {
    return width == 0 ? first + i : first + i / width * stride + i % width;
  }
};

class Device {
 public:
  /// `group`: the ranks that run problems together, one of which this device is; null: it is alone.
  explicit Device(std::shared_ptr<RankGroup> group = nullptr) : group_(std::move(group)) {}
  virtual ~Device() = default;
  RankGroup* group() const { return group_.get(); }
  /// The largest of the values of all ranks, each of which calls this: they then decide alike.
  double largest(double value) const;
  virtual const DeviceFacts& facts() const = 0;
  virtual void set_peaks(const DeviceFacts& measured) = 0;  // copies the measured rates only

  /// Throws ResourceError with the requested and the free size where there is too little memory.
  virtual Buffer allocate(std::size_t bytes) = 0;
  /// Free bytes of the device, and the bytes that its pool keeps free.
  virtual std::size_t free_bytes() const = 0;
  virtual Stream stream() const = 0;  // the device's main stream
  virtual void upload(void* to, const void* from, std::size_t bytes, Stream stream) = 0;
  /// Two buffers of `bytes` each; nullptr where there is no page-locked memory. Copies go to the main stream.
  virtual std::unique_ptr<UploadStaging> upload_staging(std::size_t /*bytes*/) { return nullptr; }
  virtual void download(void* to, const void* from, std::size_t bytes) = 0;  // waits for all earlier work
  virtual void set_bytes(void* to, int byte, std::size_t bytes, Stream stream) = 0;
  virtual void synchronize() = 0;   // the main stream; throws the errors since the last call
  virtual void wait_for_all() = 0;  // every stream of the device

  /// Elements i of [0, count): random_value(seed, rows.index(i), scale), rounded to dtype.
  virtual void fill_random(void* to, DType dtype, std::int64_t count, std::uint64_t seed, float scale,
                           const RowsWithin& rows = {}) = 0;
  /// The number of elements that are NaN (floats) or equal the poison (integers).
  virtual std::int64_t count_poisoned(const void* data, DType dtype, std::int64_t count) = 0;
  /// The errors of elements of a tensor against expected values, all in memory of the device; `errors` is not
  /// used.
  virtual ElementErrors compare(const CompareArgs& elements, DType dtype) = 0;
  /// A 64-bit checksum of each region.
  virtual std::vector<std::uint64_t> checksums(std::span<const Region> regions) = 0;
  /// Resets persisting L2 lines and reads twice the size of the L2: evicts everything else from the caches
  /// and writes dirty lines back.
  virtual void flush_cache(Stream stream) = 0;

  /// Compiles a configuration, or takes it from the cache, and loads it. Throws CompileError, ResourceError,
  /// InputError.
  virtual std::unique_ptr<Plan> prepare(const Variant& variant, const Problem& problem,
                                        const Config& config) = 0;

  /// Captures the work that `body` enqueues on its stream.
  virtual std::unique_ptr<CapturedGraph> record(const std::function<void(Stream)>& body) = 0;
  /// The time of one replay in microseconds, by device events (host: steady clock). Ranks of a group begin
  /// together, and the time is that of the slowest.
  virtual double time_us(CapturedGraph& graph) = 0;
  virtual Clocks clocks() const = 0;
  /// Clocks and throttle reasons only, which are cheaper to read; the rest is NaN.
  virtual Clocks quick_clocks() const { return clocks(); }

  /// The energy that the device has used since its driver was loaded, in joules; NaN where it does not tell.
  virtual double energy_j() const { return __builtin_nan(""); }

  /// Resets persisting L2 lines of earlier kernels, which reads alone do not evict.
  virtual void reset_persisting_cache() {}
  /// Sets back what the host code of a launch can change for later launches: the part of the L2 that is
  /// reserved for persisting lines, and the access policy window of the main stream. One sentence about a
  /// change; empty without one.
  virtual std::string restore_l2_policy() { return {}; }

 private:
  std::shared_ptr<RankGroup> group_;
};

/// Owns a device. A temporary one has no `->`, so that `open_device("host")->facts()`, a reference to facts
/// of a device that is gone, does not compile.
class OwnedDevice : public std::unique_ptr<Device> {
 public:
  OwnedDevice(std::unique_ptr<Device> device) : std::unique_ptr<Device>(std::move(device)) {}
  Device* operator->() const& { return get(); }
  Device* operator->() const&& = delete;
};

/// "host", "cuda:N", or "auto" (the first GPU, of a rank the GPU of its number, else the host); "cuda:N as
/// sm_80" is the GPU as facts_as() says. Throws InputError where there is no such device, and as facts_as().
OwnedDevice open_device(std::string_view which, std::shared_ptr<RankGroup> group = nullptr);
/// The name of a device for open_device(), as `arch` unless that is empty.
std::string device_as(std::string device, std::string_view arch);
/// Throws InputError for a problem of another number of ranks than this device and its group are.
void expect_ranks(const Device& device, const Problem& problem);
/// How many CUDA devices there are; 0 where there is no driver or the build has no CUDA.
int cuda_device_count();

}  // namespace warptune
