// The cost of reading K and V: the bulk-copy pipelines of decode attention without arithmetic, next to the
// kernel that attends. ring_stream.sh builds it; the CSV goes to stdout.
//   ranges: tiles of keys in static ranges per block, round-robin over the warps of a block; all stages in
//   flight.
//
//   paced: the same, with as many loads in flight per pipeline as the kernel.
//
//   queue: 128 or 132 blocks, one per SM. An atomic work counter assigns the last tenth of the tiles to warps
//   that have finished their ranges, so that faster SMs read more.
//
//   kernel: the winner of results/h200/attention.csv; `ranges` has its warps, tiles and stages.
//
// A sample: 256 MB of other data are read; then, between events, a CUDA graph of one launch (as isolated rows
// are timed) or of eight (as cold rows are) runs, each launch on its own K and V. The methods of a row are
// sampled alternately.
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
#include "kernels/attention_decode/mma_pipelined.cu"
#include "kernels/attention_decode/pipelined.cu"
#include "kernels/common/special_registers.cuh"
#include "kernels/support/fill.cu"
#include "kernels/support/stream.cu"
#include "scripts/evidence/cuda_handles.cuh"
#pragma nv_diagnostic pop

namespace warptune {

/// The record of one warp of ring_stream; times in ns.
struct WarpRecord {
  long long begin, end;
  unsigned sm;
  int tiles;
};

struct RingArgs {
  const unsigned char* k;  // [gridDim.y, tiles, tile_bytes]
  const unsigned char* v;
  int tiles, tile_bytes, stages;
  int static_tiles;         // tiles of a slice that are assigned statically; all without dynamic scheduling
  unsigned* work_counters;  // [gridDim.y], zeroed
  WarpRecord* records;      // [gridDim.y, gridDim.x, warps]
};

/// The pipelines of mma_pipelined.cu and pipelined.cu: slice blockIdx.y of K and V, range blockIdx.x of its
/// tiles.
template <bool kDynamic>
__global__ void ring_stream(RingArgs args) {
  extern __shared__ __align__(128) unsigned char shared[];
  const long long begin = global_timer_ns();
  const int warp = threadIdx.x / 32, warps = blockDim.x / 32, stage_bytes = 2 * args.tile_bytes;
  unsigned char* const stages = shared + warp * args.stages * stage_bytes;
  Mbarrier* const full_barrier =
      reinterpret_cast<Mbarrier*>(shared + warps * args.stages * stage_bytes) + warp * args.stages;
  const long long slice = static_cast<long long>(blockIdx.y) * args.tiles, static_tiles = args.static_tiles;
  const int end = static_cast<int>(static_tiles * (blockIdx.x + 1) / gridDim.x);
  int static_tile = static_cast<int>(static_tiles * blockIdx.x / gridDim.x) + warp, dynamic_tile = args.tiles;

  // A dynamic tile is fetched one tile ahead, so that no warp waits for the counter. From args.tiles on there
  // is none.
  const auto next_tile = [&] {
    const int tile = static_tile < end ? static_tile : dynamic_tile;
    static_tile += warps;
    if (kDynamic && static_tile >= end)
      dynamic_tile = args.static_tiles + static_cast<int>(atomicAdd(args.work_counters + blockIdx.y, 1u));
    return tile;
  };
  const auto load = [&](int tile, int stage) {
    const long long from = (slice + tile) * args.tile_bytes;
    unsigned char* const to = stages + stage * stage_bytes;
    mbarrier_arrive_expect_tx(full_barrier + stage, stage_bytes);
    bulk_copy_evict_first(to, args.k + from, args.tile_bytes, full_barrier + stage);
    bulk_copy_evict_first(to + args.tile_bytes, args.v + from, args.tile_bytes, full_barrier + stage);
  };
  const bool is_producer = threadIdx.x % 32 == 0;
  int in_flight = 0, consumed = 0;
  if (is_producer) {
    for (int stage = 0; stage < args.stages; ++stage) mbarrier_init(full_barrier + stage);
    mbarrier_init_fence();
    for (int stage = 0; stage < args.stages; ++stage)
      if (const int tile = next_tile(); tile < args.tiles) load(tile, stage), ++in_flight;
  }
  pdl_launch_dependents();
  pdl_wait();
  if (!is_producer) return;
  unsigned phase = 0;
  for (int stage = 0; in_flight > 0; --in_flight, ++consumed) {
    mbarrier_wait(full_barrier + stage, phase);
    if (const int tile = next_tile(); tile < args.tiles) load(tile, stage), ++in_flight;
    if (++stage == args.stages) {
      stage = 0;
      phase ^= 1;
    }
  }
  args.records[(blockIdx.y * gridDim.x + blockIdx.x) * warps + warp] = {begin, global_timer_ns(), sm_id(),
                                                                        consumed};
}

namespace {

using namespace evidence;

constexpr int kHeadDim = 128, kRounds = 41, kChain = 8, kMaxSlices = 8, kMaxRecords = 1024 * 8;
constexpr double kDynamicShare = 0.1;  // fraction of the tiles
constexpr long long kCacheBytes = 512ll << 20, kFlushBytes = 256ll << 20;

Device<bf16> random_values(long long count, unsigned long long seed) {
  Device<bf16> values = allocate<bf16>(count);
  fill_random<bf16><<<1024, 256>>>({.data = values.get(), .count = count, .seed = seed, .scale = 1});
  CHECKED(cudaGetLastError());
  return values;
}

/// One row of decode attention, bf16, and its winner.
struct Row {
  const char* variant;
  int batch, q_heads, kv_heads, context, splits, warps, keys, stages, loads_in_flight, l2_prefetch;
  void (*kernel)(AttentionDecodeArgs) = nullptr;
  dim3 kernel_grid = {};
  int kernel_threads = 0;
  std::size_t kernel_shared = 0;

  std::string name() const {
    return std::to_string(q_heads) + "/" + std::to_string(kv_heads) + " B" + std::to_string(batch) + " S" +
           std::to_string(context);
  }
  int tile_bytes() const { return keys * kHeadDim * static_cast<int>(sizeof(bf16)); }
  int tiles() const { return batch * kv_heads * context / keys; }
  std::size_t pipeline_bytes() const { return warps * stages * (2ull * tile_bytes() + sizeof(Mbarrier)); }
};
/// With mma_pipelined, or else pipelined.
template <bool kMma, int kQHeads, int kKvHeads, int kSplits, int kWarps, int kTileKv, int kStages,
          int kLoadsInFlight, int kL2Prefetch, Combine kCombine = Combine::last_block>
Row tuned(int batch, int context) {
  using P = DecodeProblem<bf16, kQHeads, kKvHeads, kHeadDim>;
  Row row{kMma ? "mma_pipelined" : "pipelined",
          batch,
          kQHeads,
          kKvHeads,
          context,
          kSplits,
          kWarps,
          kTileKv,
          kStages,
          kLoadsInFlight,
          kL2Prefetch};
  using Merge = BlockCombine<P, kWarps, P::kGroup, kSplits, kCombine>;
  if constexpr (kMma) {
    row.kernel = attention_decode_mma_pipelined<P, kWarps, kTileKv, kStages, kLoadsInFlight, kL2Prefetch,
                                                kSplits, static_cast<int>(kCombine)>;
    row.kernel_grid = dim3(sm_count());
    row.kernel_threads = 32 * kWarps + 32;
    row.kernel_shared =
        KvPipeline<P, kTileKv, kWarps, kStages, kLoadsInFlight, kL2Prefetch, kSplits>::kEnd + sizeof(Merge);
  } else {
    static_assert(kLoadsInFlight == kStages);
    row.kernel = attention_decode_pipelined<P, P::kGroup, kWarps, kTileKv, kStages, kL2Prefetch, kSplits,
                                            static_cast<int>(kCombine)>;
    row.kernel_grid = dim3(kSplits, kKvHeads, batch);
    row.kernel_threads = 32 * kWarps;
    row.kernel_shared = std::max(row.pipeline_bytes(), sizeof(Merge)) + 128;
  }
  return row;
}

/// K and V for every launch of a chain, large enough for every row, and the other arguments of the kernels.
struct Inputs {
  static constexpr int kMaxRows = 64 * 32;
  static constexpr int kWorkspace =
      64 * (16 * (kHeadDim + 2) + 1) + 4;  // 64 heads, 16 splits: those of batch 1
  Device<bf16> k = random_values(kChain * kCacheBytes / 2, 1), v = random_values(kChain * kCacheBytes / 2, 2);
  Device<bf16> q = random_values(kMaxRows * kHeadDim, 5), out = allocate<bf16>(kMaxRows * kHeadDim);
  Device<int> lengths = allocate<int>(kMaxRows);
  Device<float> workspace = allocate<float>(kWorkspace);
  Device<unsigned> work_counters = allocate<unsigned>(kChain * kMaxSlices);
  Device<WarpRecord> records = allocate<WarpRecord>(kMaxRecords);

  bf16* k_of(int set) const { return k.get() + set * (kCacheBytes / 2); }
  bf16* v_of(int set) const { return v.get() + set * (kCacheBytes / 2); }
};

/// A method to read a row: `enqueue(stream, number, set)` is launch `number` of a sample.
struct Method {
  const char* what;
  int loads_in_flight;  // tiles per pipeline
  dim3 grid;
  bool writes_records;
  std::function<void(cudaStream_t, int, int)> enqueue;
};

Method stream_method(const Row& row, const Inputs& in, const char* what, dim3 grid, int stages,
                     bool dynamic) {
  const int slices = static_cast<int>(grid.y), tiles = row.tiles() / slices,
            static_tiles = dynamic ? static_cast<int>(tiles * (1 - kDynamicShare)) : tiles;
  if (row.tiles() % slices != 0 || static_tiles / static_cast<int>(grid.x) < row.warps)
    throw std::runtime_error(row.name() + ": the tiles cannot be assigned like that");
  return {what, stages, grid, true, [=, &in](cudaStream_t stream, int number, int set) {
            const auto bytes = [](const bf16* cache) {
              return reinterpret_cast<const unsigned char*>(cache);
            };
            launch_pdl(dynamic ? ring_stream<true> : ring_stream<false>,
                       RingArgs{bytes(in.k_of(set)), bytes(in.v_of(set)), tiles, row.tile_bytes(), stages,
                                static_tiles, in.work_counters.get() + number * kMaxSlices, in.records.get()},
                       grid, 32 * row.warps, row.pipeline_bytes(), stream);
          }};
}
Method ranges(const Row& row, const Inputs& in, int stages) {
  return stream_method(row, in, stages < row.stages ? "paced" : "ranges",
                       dim3(row.splits, row.kv_heads * row.batch), stages, false);
}
Method queue(const Row& row, const Inputs& in, dim3 grid) {
  return stream_method(row, in, "queue", grid, row.stages, true);
}
Method kernel(const Row& row, const Inputs& in) {
  return {"kernel", row.loads_in_flight, row.kernel_grid, false, [=, &in](cudaStream_t stream, int, int set) {
            launch_pdl(row.kernel,
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

/// Captures `launches` in a CUDA graph, each on the next set of K and V, from `set` on.
CapturedGraph record(const Method& method, int launches, int set, cudaStream_t stream) {
  return capture(stream, [&] {
    for (int number = 0; number < launches; ++number) method.enqueue(stream, number, (set + number) % kChain);
  });
}

class Timer {
 public:
  explicit Timer(cudaStream_t stream) : stream_(stream) {}
  /// us of a replay from cold caches. The spin kernel keeps the device busy while the rest is enqueued.
  double operator()(cudaGraphExec_t graph) {
    stream_read<4><<<528, 512, 0, stream_>>>({flush_.get(), flush_.get(), kFlushBytes / 16});
    spin<<<1, 1, 0, stream_>>>({.nanoseconds = 40'000});
    CHECKED(cudaEventRecord(start_.get(), stream_));
    CHECKED(cudaGraphLaunch(graph, stream_));
    CHECKED(cudaEventRecord(stop_.get(), stream_));
    CHECKED(cudaEventSynchronize(stop_.get()));
    float ms = 0;
    CHECKED(cudaEventElapsedTime(&ms, start_.get(), stop_.get()));
    return 1000.0 * ms;
  }

 private:
  cudaStream_t stream_;
  Device<unsigned char> flush_ = allocate<unsigned char>(kFlushBytes);
  Event start_ = make_event(), stop_ = make_event();
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return quantile(values, 0.5);
}

/// The times at which the first, the median and the last SM finished, in us after the first warp began.
/// Throws if a tile was not read exactly once.
std::array<double, 3> done_us(const Row& row, const Method& method, const Inputs& in) {
  std::vector<WarpRecord> records(method.grid.x * method.grid.y * row.warps);
  CHECKED(cudaMemcpy(records.data(), in.records.get(), records.size() * sizeof(WarpRecord),
                     cudaMemcpyDeviceToHost));
  std::map<unsigned, long long> ends;
  long long begin = records[0].begin, tiles = 0;
  for (const WarpRecord& record : records) {
    begin = std::min(begin, record.begin);
    tiles += record.tiles;
    ends[record.sm] = std::max(ends[record.sm], record.end);
  }
  if (tiles != row.tiles()) throw std::runtime_error(row.name() + ": not every tile was read once");
  std::vector<double> us;
  for (const auto& [sm, end] : ends) us.push_back(static_cast<double>(end - begin) / 1000);
  return {std::ranges::min(us), median(us), std::ranges::max(us)};
}

/// Throws if the magnitude of the outputs differs from that of means of `context` values, uniform in [-1, 1],
/// with nearly equal weights. (`tune` verifies the kernel exactly.)
void check_out(const Row& row, const Inputs& in) {
  std::vector<std::uint16_t> out(static_cast<std::size_t>(row.batch) * row.q_heads * kHeadDim);
  CHECKED(cudaMemcpy(out.data(), in.out.get(), out.size() * sizeof(bf16), cudaMemcpyDeviceToHost));
  double squares = 0;
  for (const std::uint32_t bits : out) squares += std::pow(std::bit_cast<float>(bits << 16), 2);
  const double spread = std::sqrt(squares / static_cast<double>(out.size()) * 3 * row.context);
  if (!(spread > 0.85 && spread < 1.3))
    throw std::runtime_error(row.name() + ": the outputs do not have the magnitude of means");
}

/// Samples a row with `launches` per sample and prints its lines.
void measure(const Row& row, const Inputs& in, int launches, Timer& timer, cudaStream_t stream) {
  struct Candidate {
    Method method;
    std::array<CapturedGraph, 2> graphs;
    std::vector<double> us;
    std::array<std::vector<double>, 3> done;
  };
  std::vector<Candidate> candidates;
  for (Method& method :
       std::vector<Method>{ranges(row, in, row.stages), ranges(row, in, row.loads_in_flight),
                           queue(row, in, dim3(16, 8)), queue(row, in, dim3(33, 4)), kernel(row, in)}) {
    std::array<CapturedGraph, 2> graphs{record(method, launches, 0, stream),
                                        record(method, launches, 1, stream)};
    candidates.push_back({std::move(method), std::move(graphs), {}, {}});
  }
  const std::vector<int> lengths(row.batch, row.context);
  CHECKED(cudaMemcpyAsync(in.lengths.get(), lengths.data(), lengths.size() * sizeof(int),
                          cudaMemcpyHostToDevice, stream));
  CHECKED(cudaMemsetAsync(in.workspace.get(), 0, Inputs::kWorkspace * sizeof(float), stream));
  for (int round = -2; round < kRounds; ++round)  // two to warm up
    for (Candidate& e : candidates) {
      CHECKED(cudaMemsetAsync(in.work_counters.get(), 0, kChain * kMaxSlices * sizeof(unsigned), stream));
      const double us = timer(e.graphs[round & 1].get()) / launches;
      const std::array<double, 3> done =
          e.method.writes_records ? done_us(row, e.method, in) : std::array<double, 3>{};
      if (round < 0) continue;
      e.us.push_back(us);
      for (int i = 0; i < 3; ++i) e.done[i].push_back(done[i]);
    }
  check_out(row, in);
  for (Candidate& e : candidates) {
    std::ranges::sort(e.us);
    const auto [low, high] = median_interval(e.us);
    const double us = median(e.us);
    const long long bytes = 2ll * row.tiles() * row.tile_bytes();
    std::printf("%s,%s,%s,%d,%lld,%u,%d,%d,%d,%d,%.2f,%.2f,%.2f,%.0f,%.4f", row.name().c_str(), row.variant,
                e.method.what, launches, bytes, e.method.grid.x * e.method.grid.y * e.method.grid.z,
                row.warps, row.tile_bytes(), row.stages, e.method.loads_in_flight, us, low, high,
                static_cast<double>(bytes) / us / 1000, us / median(candidates[0].us));
    if (launches == 1 && e.method.writes_records)  // in a chain launches overlap
      std::printf(",%.1f,%.1f,%.1f\n", median(e.done[0]), median(e.done[1]), median(e.done[2]));
    else
      std::puts(",,,");
  }
}

int run() {
  const Row rows[] = {tuned<true, 64, 8, 16, 4, 32, 3, 1, 1>(1, 131072),
                      tuned<true, 32, 8, 16, 4, 32, 3, 1, 1, Combine::ll>(1, 32768),
                      tuned<false, 32, 32, 4, 8, 16, 3, 3, 0, Combine::ll>(1, 16384),
                      tuned<true, 32, 32, 1, 4, 32, 3, 1, 1>(32, 2048),
                      tuned<true, 32, 8, 1, 4, 32, 3, 1, 1>(64, 4096)};
  const Inputs in;
  const Stream stream = make_stream();
  Timer timer(stream.get());
  CHECKED(cudaDeviceSynchronize());
  std::puts(
      "row,variant,what,launches,bytes,blocks,warps,tile_bytes,stages,loads_in_flight,time_us,ci_low_us,ci_"
      "high_"
      "us,gb_per_s,"
      "over_ranges,first_sm_done_us,median_sm_done_us,last_sm_done_us");
  for (const Row& row : rows)
    for (const int launches : {1, kChain}) measure(row, in, launches, timer, stream.get());
  return 0;
}

}  // namespace
}  // namespace warptune

int main() { return warptune::evidence::run_program("ring_stream", warptune::run); }
