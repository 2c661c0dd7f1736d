// What reading K and V takes: the rings of bulk copies of decode attention with no arithmetic behind them,
// beside the kernel that attends to what they bring. ring_stream.sh builds it; the CSV goes to stdout.
//   ranges  chunks of keys dealt to blocks in ranges, to the warps of a block in turns; whole rings under way
//   paced   the same, of each ring as much under way as the kernel asks for at once
//   queue   128 or 132 blocks, one per multiprocessor; the last tenth of the chunks goes one by one to warps
//           that are done with their ranges, so that multiprocessors that read faster read more
//   kernel  the winner of results/h200/attention.csv; `ranges` has its warps, chunks and stages
// A sample: 256 MB of something else are read; then, between events, a graph of one launch (as isolated rows
// are timed) or of eight (as cold rows are), each on a set of K and V of its own. The ways of a row are
// sampled in turn.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness/measure/statistics.h"
#pragma nv_diagnostic push
#pragma nv_diag_suppress 177  // constants of the kernels that nothing reads
#include "kernels/attention_decode/mma_ring.cu"
#include "kernels/attention_decode/split_ring.cu"
#include "kernels/support/fill.cu"
#include "kernels/support/stream.cu"
#pragma nv_diagnostic pop

namespace warptune {

/// What one warp of ring_stream did; times in ns.
struct Visit {
  long long begin, end;
  unsigned multiprocessor;
  int chunks;
};

struct RingArgs {
  const unsigned char* k;  // [gridDim.y, chunks, chunk_bytes]
  const unsigned char* v;
  int chunks, chunk_bytes, stages;
  int in_ranges;      // chunks of a slice before the queue begins; all of them without a queue
  unsigned* tickets;  // [gridDim.y], zeroed: how many of the queue have been taken
  Visit* visits;      // [gridDim.y, gridDim.x, warps]
};

__device__ __forceinline__ long long nanoseconds() {
  long long now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}
__device__ __forceinline__ unsigned multiprocessor() {
  unsigned id;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(id));
  return id;
}

/// The rings of mma_ring.cu and split_ring.cu: slice blockIdx.y of K and V, range blockIdx.x of its chunks.
template <bool kQueue>
__global__ void ring_stream(RingArgs args) {
  extern __shared__ __align__(128) unsigned char shared[];
  const long long begun = nanoseconds();
  const int warp = threadIdx.x / 32, warps = blockDim.x / 32, slot_bytes = 2 * args.chunk_bytes;
  unsigned char* const ring = shared + warp * args.stages * slot_bytes;
  Mbarrier* const full =
      reinterpret_cast<Mbarrier*>(shared + warps * args.stages * slot_bytes) + warp * args.stages;
  const long long slice = static_cast<long long>(blockIdx.y) * args.chunks, in_ranges = args.in_ranges;
  const int end = static_cast<int>(in_ranges * (blockIdx.x + 1) / gridDim.x);
  int at = static_cast<int>(in_ranges * blockIdx.x / gridDim.x) + warp, ticket = args.chunks;

  // A ticket is drawn one chunk ahead, so that nobody waits for it. Not below args.chunks: there is no more.
  const auto next = [&] {
    const int chunk = at < end ? at : ticket;
    at += warps;
    if (kQueue && at >= end)
      ticket = args.in_ranges + static_cast<int>(atomicAdd(args.tickets + blockIdx.y, 1u));
    return chunk;
  };
  const auto ask = [&](int chunk, int slot) {
    const long long from = (slice + chunk) * args.chunk_bytes;
    unsigned char* const to = ring + slot * slot_bytes;
    mbarrier_arrive_expect_tx(full + slot, slot_bytes);
    bulk_copy_evict_first(to, args.k + from, args.chunk_bytes, full + slot);
    bulk_copy_evict_first(to + args.chunk_bytes, args.v + from, args.chunk_bytes, full + slot);
  };
  const bool asks = threadIdx.x % 32 == 0;
  int pending = 0, came = 0;
  if (asks) {
    for (int slot = 0; slot < args.stages; ++slot) mbarrier_init(full + slot);
    mbarrier_init_fence();
    for (int slot = 0; slot < args.stages; ++slot)
      if (const int chunk = next(); chunk < args.chunks) ask(chunk, slot), ++pending;
  }
  pdl_launch_dependents();
  pdl_wait();
  if (!asks) return;
  unsigned parity = 0;
  for (int slot = 0; pending > 0; --pending, ++came) {
    mbarrier_wait(full + slot, parity);
    if (const int chunk = next(); chunk < args.chunks) ask(chunk, slot), ++pending;
    if (++slot == args.stages) {
      slot = 0;
      parity ^= 1;
    }
  }
  args.visits[(blockIdx.y * gridDim.x + blockIdx.x) * warps + warp] = {begun, nanoseconds(), multiprocessor(),
                                                                       came};
}

namespace {

constexpr int kHeadDim = 128, kRounds = 41, kChain = 8, kMostSlices = 8, kMostVisits = 1024 * 8;
constexpr double kOfQueue = 0.1;  // share of the chunks
constexpr long long kCacheBytes = 512ll << 20, kOtherBytes = 256ll << 20;

void check(cudaError_t code, const char* call) {
  if (code != cudaSuccess) throw std::runtime_error(std::string(call) + ": " + cudaGetErrorString(code));
}
#define CHECKED(call) check((call), #call)  // throws what the runtime says

template <auto kDestroy>
struct Destroy {
  template <class T>
  void operator()(T* it) const {
    kDestroy(it);
  }
};
using Event = std::unique_ptr<CUevent_st, Destroy<cudaEventDestroy>>;
using Stream = std::unique_ptr<CUstream_st, Destroy<cudaStreamDestroy>>;
using Graph = std::unique_ptr<CUgraph_st, Destroy<cudaGraphDestroy>>;
using Replay = std::unique_ptr<CUgraphExec_st, Destroy<cudaGraphExecDestroy>>;
template <class T>
using Device = std::unique_ptr<T[], Destroy<cudaFree>>;

template <class T>
Device<T> allocate(long long count) {
  T* data = nullptr;
  CHECKED(cudaMalloc(&data, static_cast<std::size_t>(count) * sizeof(T)));
  CHECKED(cudaMemset(data, 0, static_cast<std::size_t>(count) * sizeof(T)));
  return Device<T>(data);
}
Device<bf16> random_values(long long count, unsigned long long seed) {
  Device<bf16> values = allocate<bf16>(count);
  fill_random<bf16><<<1024, 256>>>({.data = values.get(), .count = count, .seed = seed, .scale = 1});
  CHECKED(cudaGetLastError());
  return values;
}
Event make_event() {
  cudaEvent_t event = nullptr;
  CHECKED(cudaEventCreate(&event));
  return Event(event);
}
Stream make_stream() {
  cudaStream_t stream = nullptr;
  CHECKED(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return Stream(stream);
}

template <class Args>
void launch(void (*kernel)(Args), Args args, dim3 grid, int threads, std::size_t shared,
            cudaStream_t stream) {
  CHECKED(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared)));
  cudaLaunchAttribute overlap{.id = cudaLaunchAttributeProgrammaticStreamSerialization};
  overlap.val.programmaticStreamSerializationAllowed = 1;
  const cudaLaunchConfig_t config{.gridDim = grid,
                                  .blockDim = dim3(threads),
                                  .dynamicSmemBytes = shared,
                                  .stream = stream,
                                  .attrs = &overlap,
                                  .numAttrs = 1};
  CHECKED(cudaLaunchKernelEx(&config, kernel, args));
}

unsigned multiprocessors_of_device() {
  int device = 0, count = 0;
  CHECKED(cudaGetDevice(&device));
  CHECKED(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device));
  return static_cast<unsigned>(count);
}

/// One row of decode attention, bf16, and its winner.
struct Row {
  const char* variant;
  int batch, q_heads, kv_heads, context, splits, warps, keys, stages, under_way, ahead;
  void (*kernel)(AttentionDecodeArgs) = nullptr;
  dim3 kernel_grid = {};
  int kernel_threads = 0;
  std::size_t kernel_shared = 0;

  std::string name() const {
    return std::to_string(q_heads) + "/" + std::to_string(kv_heads) + " B" + std::to_string(batch) + " S" +
           std::to_string(context);
  }
  int chunk_bytes() const { return keys * kHeadDim * static_cast<int>(sizeof(bf16)); }
  int chunks() const { return batch * kv_heads * context / keys; }
  std::size_t ring_bytes() const { return warps * stages * (2ull * chunk_bytes() + sizeof(Mbarrier)); }
};
/// With mma_ring, or else split_ring.
template <bool kMma, int kQHeads, int kKvHeads, int kSplits, int kWarps, int kKeys, int kStages,
          int kUnderWay, int kAhead, int kCombine = kMergeLastBlock>
Row tuned(int batch, int context) {
  using P = DecodeProblem<bf16, kQHeads, kKvHeads, kHeadDim>;
  Row row{kMma ? "mma_ring" : "split_ring",
          batch,
          kQHeads,
          kKvHeads,
          context,
          kSplits,
          kWarps,
          kKeys,
          kStages,
          kUnderWay,
          kAhead};
  using Merge = RingMerge<P, kWarps, P::kGroup, kSplits, kCombine>;
  if constexpr (kMma) {
    row.kernel = attention_decode_mma_ring<P, kWarps, kKeys, kStages, kUnderWay, kAhead, kSplits, kCombine>;
    row.kernel_grid = dim3(multiprocessors_of_device());
    row.kernel_threads = 32 * kWarps + 32;
    row.kernel_shared = FedRings<P, kKeys, kWarps, kStages, kUnderWay, kAhead, kSplits>::kEnd + sizeof(Merge);
  } else {
    static_assert(kUnderWay == kStages);
    row.kernel = attention_decode_split_ring<P, P::kGroup, kWarps, kKeys, kStages, kAhead, kSplits, kCombine>;
    row.kernel_grid = dim3(kSplits, kKvHeads, batch);
    row.kernel_threads = 32 * kWarps;
    row.kernel_shared = std::max(row.ring_bytes(), sizeof(Merge)) + 128;
  }
  return row;
}

/// K and V for every launch of a chain, large enough for every row, and what the kernels take besides.
struct Inputs {
  static constexpr int kMostRows = 64 * 32;
  static constexpr int kWorkspace =
      64 * (16 * (kHeadDim + 2) + 1) + 4;  // 64 heads, 16 splits: those of batch 1
  Device<bf16> k = random_values(kChain * kCacheBytes / 2, 1), v = random_values(kChain * kCacheBytes / 2, 2);
  Device<bf16> q = random_values(kMostRows * kHeadDim, 5), out = allocate<bf16>(kMostRows * kHeadDim);
  Device<int> lengths = allocate<int>(kMostRows);
  Device<float> workspace = allocate<float>(kWorkspace);
  Device<unsigned> tickets = allocate<unsigned>(kChain * kMostSlices);
  Device<Visit> visits = allocate<Visit>(kMostVisits);

  bf16* k_of(int set) const { return k.get() + set * (kCacheBytes / 2); }
  bf16* v_of(int set) const { return v.get() + set * (kCacheBytes / 2); }
};

/// A way to read a row: `enqueue(stream, number, set)` is launch `number` of a sample.
struct Way {
  const char* what;
  int under_way;  // chunks of a ring
  dim3 grid;
  bool leaves_visits;
  std::function<void(cudaStream_t, int, int)> enqueue;
};

Way rings(const Row& row, const Inputs& in, const char* what, dim3 grid, int stages, bool queue) {
  const int slices = static_cast<int>(grid.y), chunks = row.chunks() / slices,
            in_ranges = queue ? static_cast<int>(chunks * (1 - kOfQueue)) : chunks;
  if (row.chunks() % slices != 0 || in_ranges / static_cast<int>(grid.x) < row.warps)
    throw std::runtime_error(row.name() + " cannot be dealt like that");
  return {what, stages, grid, true, [=, &in](cudaStream_t stream, int number, int set) {
            const auto bytes = [](const bf16* cache) {
              return reinterpret_cast<const unsigned char*>(cache);
            };
            launch(queue ? ring_stream<true> : ring_stream<false>,
                   RingArgs{bytes(in.k_of(set)), bytes(in.v_of(set)), chunks, row.chunk_bytes(), stages,
                            in_ranges, in.tickets.get() + number * kMostSlices, in.visits.get()},
                   grid, 32 * row.warps, row.ring_bytes(), stream);
          }};
}
Way ranges(const Row& row, const Inputs& in, int stages) {
  return rings(row, in, stages < row.stages ? "paced" : "ranges", dim3(row.splits, row.kv_heads * row.batch),
               stages, false);
}
Way queue(const Row& row, const Inputs& in, dim3 grid) {
  return rings(row, in, "queue", grid, row.stages, true);
}
Way kernel(const Row& row, const Inputs& in) {
  return {"kernel", row.under_way, row.kernel_grid, false, [=, &in](cudaStream_t stream, int, int set) {
            launch(row.kernel,
                   AttentionDecodeArgs{.q = in.q.get(),
                                       .k_cache = in.k_of(set),
                                       .v_cache = in.v_of(set),
                                       .lengths = in.lengths.get(),
                                       .out = in.out.get(),
                                       .workspace = in.workspace.get(),
                                       .batch = row.batch,
                                       .capacity = row.context,
                                       .scale = 1 / std::sqrt(static_cast<float>(kHeadDim))},
                   row.kernel_grid, row.kernel_threads, row.kernel_shared, stream);
          }};
}

/// Launches in a graph, each on the next set, from `set` on.
Replay record(const Way& way, int launches, int set, cudaStream_t stream) {
  CHECKED(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  for (int number = 0; number < launches; ++number) way.enqueue(stream, number, (set + number) % kChain);
  cudaGraph_t graph = nullptr;
  CHECKED(cudaStreamEndCapture(stream, &graph));
  const Graph owner(graph);
  cudaGraphExec_t replay = nullptr;
  CHECKED(cudaGraphInstantiate(&replay, graph, 0));
  return Replay(replay);
}

class Timer {
 public:
  explicit Timer(cudaStream_t stream) : stream_(stream) {}
  /// us of a replay, from cold caches; the spin keeps the device busy while the rest is enqueued.
  double operator()(cudaGraphExec_t replay) {
    stream_read<4><<<528, 512, 0, stream_>>>({other_.get(), other_.get(), kOtherBytes / 16});
    spin<<<1, 1, 0, stream_>>>({.nanoseconds = 40'000});
    CHECKED(cudaEventRecord(start_.get(), stream_));
    CHECKED(cudaGraphLaunch(replay, stream_));
    CHECKED(cudaEventRecord(stop_.get(), stream_));
    CHECKED(cudaEventSynchronize(stop_.get()));
    float ms = 0;
    CHECKED(cudaEventElapsedTime(&ms, start_.get(), stop_.get()));
    return 1000.0 * ms;
  }

 private:
  cudaStream_t stream_;
  Device<unsigned char> other_ = allocate<unsigned char>(kOtherBytes);
  Event start_ = make_event(), stop_ = make_event();
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return quantile(values, 0.5);
}

/// When the first, the median and the last multiprocessor that read were done, in us after the first warp
/// began. Throws where not every chunk came.
std::array<double, 3> done_us(const Row& row, const Way& way, const Inputs& in) {
  std::vector<Visit> visits(way.grid.x * way.grid.y * row.warps);
  CHECKED(cudaMemcpy(visits.data(), in.visits.get(), visits.size() * sizeof(Visit), cudaMemcpyDeviceToHost));
  std::map<unsigned, long long> ends;
  long long begin = visits[0].begin, came = 0;
  for (const Visit& visit : visits) {
    begin = std::min(begin, visit.begin);
    came += visit.chunks;
    ends[visit.multiprocessor] = std::max(ends[visit.multiprocessor], visit.end);
  }
  if (came != row.chunks()) throw std::runtime_error(row.name() + ": not every chunk came once");
  std::vector<double> us;
  for (const auto& [multiprocessor, end] : ends) us.push_back(static_cast<double>(end - begin) / 1000);
  return {std::ranges::min(us), median(us), std::ranges::max(us)};
}

/// Outputs are means of `context` values uniform in [-1, 1], by weights that are nearly alike: that large on
/// average, else this throws. (That they are right is proved where the kernel is tuned.)
void check_out(const Row& row, const Inputs& in) {
  std::vector<std::uint16_t> out(static_cast<std::size_t>(row.batch) * row.q_heads * kHeadDim);
  CHECKED(cudaMemcpy(out.data(), in.out.get(), out.size() * sizeof(bf16), cudaMemcpyDeviceToHost));
  double squares = 0;
  for (const std::uint32_t bits : out) squares += std::pow(std::bit_cast<float>(bits << 16), 2);
  const double spread = std::sqrt(squares / static_cast<double>(out.size()) * 3 * row.context);
  if (!(spread > 0.85 && spread < 1.3))
    throw std::runtime_error(row.name() + ": the outputs are not as large as means are");
}

/// Prints the lines of a row, sampled with so many launches.
void measure(const Row& row, const Inputs& in, int launches, Timer& timer, cudaStream_t stream) {
  struct Entrant {
    Way way;
    std::array<Replay, 2> replays;
    std::vector<double> us;
    std::array<std::vector<double>, 3> done;
  };
  std::vector<Entrant> entrants;
  for (Way& way :
       std::vector<Way>{ranges(row, in, row.stages), ranges(row, in, row.under_way),
                        queue(row, in, dim3(16, 8)), queue(row, in, dim3(33, 4)), kernel(row, in)}) {
    std::array<Replay, 2> replays{record(way, launches, 0, stream), record(way, launches, 1, stream)};
    entrants.push_back({std::move(way), std::move(replays), {}, {}});
  }
  const std::vector<int> lengths(row.batch, row.context);
  CHECKED(cudaMemcpyAsync(in.lengths.get(), lengths.data(), lengths.size() * sizeof(int),
                          cudaMemcpyHostToDevice, stream));
  CHECKED(cudaMemsetAsync(in.workspace.get(), 0, Inputs::kWorkspace * sizeof(float), stream));
  for (int round = -2; round < kRounds; ++round)  // two to warm up
    for (Entrant& e : entrants) {
      CHECKED(cudaMemsetAsync(in.tickets.get(), 0, kChain * kMostSlices * sizeof(unsigned), stream));
      const double us = timer(e.replays[round & 1].get()) / launches;
      const std::array<double, 3> done =
          e.way.leaves_visits ? done_us(row, e.way, in) : std::array<double, 3>{};
      if (round < 0) continue;
      e.us.push_back(us);
      for (int i = 0; i < 3; ++i) e.done[i].push_back(done[i]);
    }
  check_out(row, in);
  for (Entrant& e : entrants) {
    std::ranges::sort(e.us);
    const auto [low, high] = median_interval(e.us);
    const double us = median(e.us);
    const long long bytes = 2ll * row.chunks() * row.chunk_bytes();
    std::printf("%s,%s,%s,%d,%lld,%u,%d,%d,%d,%d,%.2f,%.2f,%.2f,%.0f,%.4f", row.name().c_str(), row.variant,
                e.way.what, launches, bytes, e.way.grid.x * e.way.grid.y * e.way.grid.z, row.warps,
                row.chunk_bytes(), row.stages, e.way.under_way, us, low, high,
                static_cast<double>(bytes) / us / 1000, us / median(entrants[0].us));
    if (launches == 1 && e.way.leaves_visits)  // in a chain launches overlap
      std::printf(",%.1f,%.1f,%.1f\n", median(e.done[0]), median(e.done[1]), median(e.done[2]));
    else
      std::puts(",,,");
  }
}

int run() {
  const Row rows[] = {tuned<true, 64, 8, 16, 4, 32, 3, 1, 1>(1, 131072),
                      tuned<true, 32, 8, 16, 4, 32, 3, 1, 1, kMergePosted>(1, 32768),
                      tuned<false, 32, 32, 4, 8, 16, 3, 3, 0, kMergePosted>(1, 16384),
                      tuned<true, 32, 32, 1, 4, 32, 3, 1, 1>(32, 2048),
                      tuned<true, 32, 8, 1, 4, 32, 3, 1, 1>(64, 4096)};
  const Inputs in;
  const Stream stream = make_stream();
  Timer timer(stream.get());
  CHECKED(cudaDeviceSynchronize());
  std::puts(
      "row,variant,what,launches,bytes,blocks,warps,chunk_bytes,stages,under_way,time_us,ci_low_us,ci_high_"
      "us,gb_per_s,"
      "over_ranges,first_sm_done_us,median_sm_done_us,last_sm_done_us");
  for (const Row& row : rows)
    for (const int launches : {1, kChain}) measure(row, in, launches, timer, stream.get());
  return 0;
}

}  // namespace
}  // namespace warptune

int main() {
  try {
    return warptune::run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ring_stream: %s\n", error.what());
    return 2;
  }
}
