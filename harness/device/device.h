#pragma once
// What the harness and the model need of a device: memory, plans, captured graphs. Two kinds: CUDA GPUs and
// the host.
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "harness/core/facts.h"
#include "harness/core/variant.h"

namespace warptune {

/// An ordered queue of work; a null handle on the host.
struct Stream {
  void* handle = nullptr;
};

/// Device memory owned by value; released to the pool it came from. Move-only.
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

/// What a compiled configuration takes; the worst of its kernels. Zero where unknown (host, libraries).
struct Resources {
  int registers = 0;              // per thread
  std::int64_t shared_bytes = 0;  // static and dynamic, per block
  std::int64_t spill_bytes = 0;   // stores and loads
  double occupancy_pct = 0;
  double compile_ms = 0;  // 0 where it came from the cache
  /// A hash of the machine code of all kernels with the geometry of their launches, the architecture and the
  /// toolkit: the identity of a configuration. Empty on the host and where a library runs.
  std::string code_hash = {};
};

/// A variant for a problem and configuration, compiled and ready: it can only be launched.
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

/// State of the clocks while measuring; NaN / empty where the device does not tell.
struct Clocks {
  double sm_mhz, temperature_c, power_w;
  std::string throttled;  // reasons, "none", or empty where unknown
};

/// Device memory of someone else, to look at.
struct Region {
  const void* data = nullptr;
  std::size_t bytes = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceFacts& facts() const = 0;
  virtual void set_peaks(const DeviceFacts& measured) = 0;  // takes over the measured rates only

  /// Throws std::bad_alloc-like ResourceError with the sizes wanted and free.
  virtual Buffer allocate(std::size_t bytes) = 0;
  virtual std::size_t free_bytes() const = 0;
  virtual Stream stream() const = 0;  // the device's main stream
  virtual void upload(void* to, const void* from, std::size_t bytes, Stream stream) = 0;
  virtual void download(void* to, const void* from, std::size_t bytes) = 0;  // waits for all work before
  virtual void set_bytes(void* to, int byte, std::size_t bytes, Stream stream) = 0;
  virtual void synchronize() = 0;   // the main stream; throws what went wrong since the last call
  virtual void wait_for_all() = 0;  // every stream, also those of others

  /// Elements i of [0, count): random_value(seed, i, scale), rounded to dtype.
  virtual void fill_random(void* to, DType dtype, std::int64_t count, std::uint64_t seed, float scale) = 0;
  /// How many of `count` elements are NaN (floats) or equal the poison (integers).
  virtual std::int64_t count_poisoned(const void* data, DType dtype, std::int64_t count) = 0;
  /// A number of each region that any change of its bytes changes (but for one case in 2^64).
  virtual std::vector<std::uint64_t> checksums(std::span<const Region> regions) = 0;
  /// Releases what is pinned and reads twice the L2, so that nothing else is left in the caches, and nothing
  /// that is yet to be written to memory.
  virtual void flush_cache(Stream stream) = 0;

  /// Compiles (or finds in the cache) and loads. Throws CompileError, ResourceError, InputError.
  virtual std::unique_ptr<Plan> prepare(const Variant& variant, const Problem& problem,
                                        const Config& config) = 0;

  /// Records what `body` enqueues on the stream it is given.
  virtual std::unique_ptr<CapturedGraph> record(const std::function<void(Stream)>& body) = 0;
  /// The time of one replay in microseconds, by device events (host: steady clock).
  virtual double time_us(CapturedGraph& graph) = 0;
  virtual Clocks clocks() const = 0;
  /// Clock and throttle reasons only, which is cheaper to read; the rest NaN.
  virtual Clocks quick_clocks() const { return clocks(); }

  /// Takes away what earlier kernels pinned in the L2, where a device can do so: a flush does not evict it.
  virtual void reset_persisting_cache() {}
};

/// "host", "cuda:N", or "auto" (the first GPU, else the host). Throws InputError where there is no such
/// device.
std::unique_ptr<Device> open_device(std::string_view which);
/// How many CUDA devices there are; 0 where there is no driver or the build has no CUDA.
int cuda_device_count();

}  // namespace warptune
