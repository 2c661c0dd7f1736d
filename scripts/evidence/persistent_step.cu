// The decode step of a small LLaMA as one persistent kernel (persistent_step.cuh), random weights, batch 1,
// context 512: verified against plain kernels (persistent_step_reference.cuh), then timed. The CSV goes to
// stdout, all else to stderr: the distances from the reference and, per op, where warp 0 of the blocks spends
// its time. Build and run: scripts/evidence/probe.sh persistent_step --out FOLDER
// Columns: model, mode (exchange; stream_only: no waits, the bound of the other; profiled), L2 prefetch in
// tiles of 8 KB, step_us, the roofline floor_us, pct_of_floor.
//
// Verification: one layer, then all, three steps each; relative L2 distance of qkv, of the residual after
// attention, of the inner vector and of the residual after the last layer, of the logits, and of the appended
// keys and values; the token must be the argmax of the kernel's own logits.
//
// Timing: CUDA graphs of ten steps. The weights exceed the L2 many times, so that every step reads them from
// memory. Modes: persistent_step.cuh; stream_only does not wait for other blocks and bounds the others.
#include <cuda.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/support/fill.cu"
#include "scripts/evidence/cuda_handles.cuh"
#include "scripts/evidence/persistent_step_reference.cuh"

namespace warptune::persistent {
namespace {

using namespace evidence;

constexpr double kPeakBytesPerUs = 4.67e6;  // H200, read
constexpr double kMaxDistance = 1e-2;       // of one layer; rounding errors of layers are independent
constexpr int kGraphSteps = 10, kRounds = 15;

template <class T>
using Mapped = std::unique_ptr<T[], Destroy<cudaFreeHost>>;
Device<bf16> random_values(long long count, unsigned long long seed, double scale) {
  Device<bf16> values = allocate<bf16>(count);
  fill_random<bf16><<<1024, 256>>>(
      {.data = values.get(), .count = count, .seed = seed, .scale = static_cast<float>(scale)});
  CHECKED(cudaGetLastError());
  return values;
}
template <class T>
std::vector<T> download(const T* from, long long count) {
  std::vector<T> values(static_cast<std::size_t>(count));
  CHECKED(cudaMemcpy(values.data(), from, values.size() * sizeof(T), cudaMemcpyDeviceToHost));
  return values;
}

/// The map of a row-major weight whose box is a tile: 64 elements (swizzled) x rows x parts x 8 chunks of 64.
/// With two parts (gate and up) a tile has half of its rows from each.
CUtensorMap tile_map(const bf16* weight, long long rows, long long k, unsigned parts) {
  static const auto encode = [] {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found;
    CHECKED(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault,
                                             &found));
    return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function);
  }();
  const auto count = [](long long x) { return static_cast<cuuint64_t>(x); };
  const cuuint64_t extents[] = {64, count(rows / parts), parts, count(k / 64)};
  const cuuint64_t strides[] = {count(2 * k), count(2 * k * (rows / parts)), 128};
  const cuuint32_t box[] = {64, kTileRows / parts, parts, kTileK / 64}, steps[] = {1, 1, 1, 1};
  CUtensorMap map;
  if (encode(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 4, const_cast<bf16*>(weight), extents, strides, box,
             steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) != CUDA_SUCCESS)
    throw std::runtime_error("no tensor map");
  return map;
}

int sm_count() {
  int device = 0, count = 0;
  CHECKED(cudaGetDevice(&device));
  CHECKED(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device));
  return count;
}

/// The programs of all blocks. A unit goes to the block with the fewest tiles so far; in a layer no block
/// gets more units of an op than the even share, rounded up.
template <class S>
std::vector<Instruction> make_programs(int layers, int blocks) {
  std::vector<std::vector<Instruction>> programs(blocks);
  std::vector<long long> load(blocks);
  const auto assign = [&](int op, int layer) {
    const int count = units<S>(op);
    const int most = op == kLmHead ? count : (count + blocks - 1) / blocks;
    std::vector<int> share(blocks);
    for (int unit = 0; unit < count; ++unit) {
      int best = -1;
      for (int b = 0; b < blocks; ++b)
        if (share[b] < most && (best < 0 || load[b] < load[best])) best = b;
      ++share[best];
      load[best] += unit_tiles<S>(op);
    }
    int first = 0;
    for (int b = 0; b < blocks; ++b) {
      if (share[b] == 0 && op != kAttention)
        throw std::runtime_error("a block without rows of an op would overtake the others");
      if (share[b] > 0) programs[b].push_back({op, layer, first, share[b]});
      first += share[b];
    }
  };
  for (int layer = 0; layer < layers; ++layer)
    for (const int op : {kQkv, kAttention, kO, kGateUp, kDown}) assign(op, layer);
  assign(kLmHead, layers);
  std::vector<Instruction> all;
  for (std::vector<Instruction>& program : programs) {
    program.resize(kMaxInstructions, {kEnd, 0, 0, 0});
    if (program.back().op != kEnd) throw std::runtime_error("the program does not fit");
    all.insert(all.end(), program.begin(), program.end());
  }
  const auto [least, most] = std::ranges::minmax(load);
  std::fprintf(stderr, "%d layers: %lld to %lld tiles per block\n", layers, least, most);
  return all;
}

/// Weights, caches and buffers of a model.
template <class S>
struct Model {
  static constexpr long long kCache = 1ll * S::kLayers * S::kKvHeads * S::kContext * S::kHeadDim;
  const int blocks = sm_count();
  Device<bf16> weights = random_values(S::kLayers * S::kLayerWeights, 1, std::sqrt(3.0 / S::kHidden));
  Device<bf16> norms = random_values((2ll * S::kLayers + 1) * S::kHidden, 2, 1);
  Device<bf16> embedding = random_values(1ll * S::kVocab * S::kHidden, 3, 0.5);
  Device<bf16> k = random_values(kCache, 4, 1), v = random_values(kCache, 5, 1);
  Device<bf16> reference_k = random_values(kCache, 4, 1), reference_v = random_values(kCache, 5, 1);
  Device<float> inv_freq = allocate<float>(S::kHeadDim / 2), logits = allocate<float>(S::kVocab);
  Device<TensorMap> maps = allocate<TensorMap>(4 * S::kLayers + 1);
  Device<Instruction> programs = allocate<Instruction>(1ll * blocks * kMaxInstructions);
  Device<unsigned> packets =
      allocate<unsigned>(S::kQkvWidth + S::kSplits * S::kQWidth + 2 * S::kHidden + S::kInner);
  Device<unsigned long long> lse = allocate<unsigned long long>(S::kSplits * S::kQHeads),
                             best = allocate<unsigned long long>(1);
  Device<unsigned> counters = allocate<unsigned>(2);
  Device<int> token = allocate<int>(2);
  Device<long long> profile = allocate<long long>(1ll * blocks * kOps * 3);
  Mapped<unsigned> stuck;

  Device<bf16> reference_rows = allocate<bf16>(S::kQkvWidth + 3 * S::kHidden + S::kInner + S::kQWidth);
  Device<float> reference_floats = allocate<float>(2 * S::kInner + S::kVocab);

  Model() {
    unsigned* mapped = nullptr;
    CHECKED(cudaHostAlloc(&mapped, stuck_count() * sizeof(unsigned), cudaHostAllocMapped));
    std::fill_n(mapped, stuck_count(), 0u);
    stuck.reset(mapped);
    std::vector<float> frequencies;
    for (int i = 0; i < S::kHeadDim / 2; ++i)
      frequencies.push_back(static_cast<float>(std::pow(10000.0, -2.0 * i / S::kHeadDim)));
    CHECKED(cudaMemcpy(inv_freq.get(), frequencies.data(), frequencies.size() * sizeof(float),
                       cudaMemcpyHostToDevice));
    const int id = 17;
    CHECKED(cudaMemcpy(token.get(), &id, sizeof(id), cudaMemcpyHostToDevice));
  }
  std::size_t stuck_count() const { return static_cast<std::size_t>(blocks) * (kThreads / 32); }

  Args args(int layers, int l2_prefetch) {
    const std::vector<Instruction> all = make_programs<S>(layers, blocks);
    CHECKED(cudaMemcpy(programs.get(), all.data(), all.size() * sizeof(Instruction), cudaMemcpyHostToDevice));
    std::vector<CUtensorMap> tiles;
    for (int layer = 0; layer < layers; ++layer) {
      const bf16* const w = weights.get() + layer * S::kLayerWeights;
      tiles.push_back(tile_map(w + S::kQkvAt, S::kQkvWidth, S::kHidden, 1));
      tiles.push_back(tile_map(w + S::kOAt, S::kHidden, S::kQWidth, 1));
      tiles.push_back(tile_map(w + S::kGateUpAt, 2 * S::kInner, S::kHidden, 2));
      tiles.push_back(tile_map(w + S::kDownAt, S::kHidden, S::kInner, 1));
    }
    tiles.push_back(tile_map(embedding.get(), S::kVocab, S::kHidden, 1));
    CHECKED(cudaMemcpy(maps.get(), tiles.data(), tiles.size() * sizeof(TensorMap), cudaMemcpyHostToDevice));
    unsigned* const qkv = packets.get();
    unsigned* const attention = qkv + S::kQkvWidth;
    unsigned* const middle = attention + S::kSplits * S::kQWidth;
    unsigned* const residual = middle + S::kHidden;
    return {.maps = maps.get(),
            .weights = weights.get(),
            .norms = norms.get(),
            .embedding = embedding.get(),
            .head = embedding.get(),
            .k_cache = k.get(),
            .v_cache = v.get(),
            .inv_freq = inv_freq.get(),
            .program = programs.get(),
            .exchange = {.qkv = qkv,
                         .attention = attention,
                         .lse = lse.get(),
                         .middle = middle,
                         .inner = residual + S::kHidden,
                         .residual = residual},
            .logits = logits.get(),
            .best = best.get(),
            .arrived = counters.get(),
            .step = counters.get() + 1,
            .token = token.get(),
            .next_token = token.get() + 1,
            .stuck = stuck.get(),
            .profile = profile.get(),
            .position = S::kContext - 1,
            .layers = layers,
            .l2_prefetch = l2_prefetch};
  }
  /// Forgets the packets: steps of another number of layers follow.
  void reset() {
    CHECKED(cudaDeviceSynchronize());
    CHECKED(
        cudaMemset(packets.get(), 0,
                   (S::kQkvWidth + S::kSplits * S::kQWidth + 2 * S::kHidden + S::kInner) * sizeof(unsigned)));
    CHECKED(cudaMemset(lse.get(), 0, S::kSplits * S::kQHeads * sizeof(unsigned long long)));
    CHECKED(cudaMemset(counters.get(), 0, 2 * sizeof(unsigned)));
    CHECKED(cudaMemset(best.get(), 0, sizeof(unsigned long long)));
    CHECKED(cudaDeviceSynchronize());
  }
  reference::Buffers buffers() {
    bf16* const rows = reference_rows.get();
    bf16* const middle = rows + S::kQkvWidth;
    bf16* const inner = middle + 3 * S::kHidden;
    return {.qkv = rows,
            .middle = middle,
            .inner = inner,
            .residual = middle + S::kHidden,
            .normalized = middle + 2 * S::kHidden,
            .attention = inner + S::kInner,
            .gate_up = reference_floats.get(),
            .logits = reference_floats.get() + 2 * S::kInner};
  }
  /// Bytes that a step reads.
  double bytes() const {
    return 2.0 * (S::kLayers * S::kLayerWeights + 1ll * S::kVocab * S::kHidden + 2 * kCache);
  }
};

template <class S>
void launch(Mode mode, const Args& args, int blocks, cudaStream_t stream) {
  const auto kernel = mode == kExchange     ? step<S, kExchange>
                      : mode == kStreamOnly ? step<S, kStreamOnly>
                                            : step<S, kProfiled>;
  CHECKED(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Shared<S>)));
  cudaLaunchAttribute cooperative{.id = cudaLaunchAttributeCooperative};
  cooperative.val.cooperative = 1;
  const cudaLaunchConfig_t config{.gridDim = dim3(blocks),
                                  .blockDim = dim3(kThreads),
                                  .dynamicSmemBytes = sizeof(Shared<S>),
                                  .stream = stream,
                                  .attrs = &cooperative,
                                  .numAttrs = 1};
  CHECKED(cudaLaunchKernelEx(&config, kernel, args));
}

/// Synchronizes; after a wait that took too long it says what the blocks waited for.
template <class S>
void synchronize(const Model<S>& model) {
  const cudaError_t code = cudaDeviceSynchronize();
  if (code == cudaSuccess) return;
  for (std::size_t i = 0, said = 0; i < model.stuck_count() && said < 40; ++i)
    if (const unsigned place = model.stuck[i]; place != 0) {
      std::fprintf(stderr, "stuck: block %zu warp %zu wait %02x op %u layer %d\n", i / (kThreads / 32),
                   i % (kThreads / 32), place >> 24, place >> 16 & 255, static_cast<int>(place & 0xffff) - 1);
      ++said;
    }
  check(code, "the persistent kernel");
}

// Verification.

float as_float(unsigned packet) {
  packet &= 0xffff0000u;
  float x;
  std::memcpy(&x, &packet, sizeof(x));
  return x;
}
float as_float(bf16 x) { return as_float(static_cast<unsigned>(x.bits) << 16); }
float as_float(float x) { return x; }

/// Relative L2 distance of device vectors; infinity where a value is NaN.
template <class T, class U>
double distance(const T* device_x, const U* device_reference, long long count) {
  const std::vector<T> x = download(device_x, count);
  const std::vector<U> y = download(device_reference, count);
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    error += std::pow(as_float(x[i]) - as_float(y[i]), 2.0);
    norm += std::pow(as_float(y[i]), 2.0);
  }
  const double result = std::sqrt(error / norm);
  return std::isfinite(result) ? result : std::numeric_limits<double>::infinity();
}

/// Whether the kernel computes what the reference does.
template <class S>
bool verify(Model<S>& model, const char* name, Mode mode, int layers) {
  model.reset();
  const Args args = model.args(layers, 16);
  const reference::Buffers b = model.buffers();
  reference::step<S>(args, b, model.reference_k.get(), model.reference_v.get(), 17);
  CHECKED(cudaDeviceSynchronize());
  for (int i = 0; i < 3; ++i) launch<S>(mode, args, model.blocks, nullptr);
  synchronize(model);
  struct {
    const char* what;
    double distance;
  } const checks[] = {
      {"values", distance(args.exchange.qkv + S::kQWidth + S::kKvHeads * S::kHeadDim,
                          b.qkv + S::kQWidth + S::kKvHeads * S::kHeadDim, S::kKvHeads * S::kHeadDim)},
      {"k_cache", distance(model.k.get(), model.reference_k.get(), model.kCache)},
      {"v_cache", distance(model.v.get(), model.reference_v.get(), model.kCache)},
      {"middle", distance(args.exchange.middle, b.middle, S::kHidden)},
      {"inner", distance(args.exchange.inner, b.inner, S::kInner)},
      {"residual", distance(args.exchange.residual, b.residual, S::kHidden)},
      {"logits", distance(model.logits.get(), b.logits, S::kVocab)},
  };
  bool good = true;
  for (const auto& [what, distance] : checks) {
    const bool close = distance < kMaxDistance * std::sqrt(layers);
    good = good && close;
    std::fprintf(stderr, "verify: %s, %d layers, mode %d: %s %.2e%s\n", name, layers, mode, what, distance,
                 close ? "" : " WRONG");
  }
  const std::vector<float> logits = download(model.logits.get(), S::kVocab);
  const auto argmax = static_cast<int>(std::ranges::max_element(logits) - logits.begin());
  const int token = download(model.token.get() + 1, 1)[0];
  if (token != argmax)
    std::fprintf(stderr, "verify: token %d, argmax of the logits %d WRONG\n", token, argmax);
  return good && token == argmax;
}

// Timing.

/// The median us of a step.
template <class S>
double time_step(Model<S>& model, Mode mode, int l2_prefetch) {
  model.reset();
  const Args args = model.args(S::kLayers, l2_prefetch);
  const Stream stream = make_stream();
  const CapturedGraph graph = capture(stream.get(), [&] {
    for (int i = 0; i < kGraphSteps; ++i) launch<S>(mode, args, model.blocks, stream.get());
  });
  const Event start = make_event(), stop = make_event();
  std::vector<double> us;
  for (int round = -2; round < kRounds; ++round) {  // two to warm up
    CHECKED(cudaEventRecord(start.get(), stream.get()));
    CHECKED(cudaGraphLaunch(graph.get(), stream.get()));
    CHECKED(cudaEventRecord(stop.get(), stream.get()));
    synchronize(model);
    float ms = 0;
    CHECKED(cudaEventElapsedTime(&ms, start.get(), stop.get()));
    if (round >= 0) us.push_back(1000.0 * ms / kGraphSteps);
  }
  std::ranges::sort(us);
  return us[us.size() / 2];
}

/// Per op: us that warp 0 of a block needs until x is there, and waits for weights, and in all; means over
/// the blocks, sums over the layers.
template <class S>
void print_profile(Model<S>& model, const char* name) {
  int kilohertz = 0;
  CHECKED(cudaDeviceGetAttribute(&kilohertz, cudaDevAttrClockRate, 0));
  const std::vector<long long> clocks = download(model.profile.get(), 1ll * model.blocks * kOps * 3);
  const char* const ops[] = {"qkv", "attention", "o", "gate_up", "down", "lm_head"};
  for (int op = 0; op < kOps; ++op) {
    std::array<double, 3> us{};
    for (int b = 0; b < model.blocks; ++b)
      for (int i = 0; i < 3; ++i)
        us[i] += 1000.0 * static_cast<double>(clocks[(b * kOps + op) * 3 + i]) / kilohertz / model.blocks;
    std::fprintf(stderr, "profile: %s %-9s x %6.1f weights %6.1f all %6.1f us\n", name, ops[op], us[0], us[1],
                 us[2]);
  }
}

template <class S>
bool run(const char* name) {
  Model<S> model;
  bool good = true;
  for (const int layers : {1, S::kLayers}) good = verify(model, name, kExchange, layers) && good;
  if (!good) return false;
  const double floor = model.bytes() / kPeakBytesPerUs;
  const char* const modes[] = {"exchange", "stream_only", "profiled"};
  for (const Mode mode : {kExchange, kStreamOnly, kProfiled})
    for (const int l2_prefetch : {0, 8, 24}) {
      const double us = time_step(model, mode, l2_prefetch);
      std::printf("%s,%s,%d,%.1f,%.1f,%.1f\n", name, modes[mode], l2_prefetch, us, floor, 100 * floor / us);
      std::fflush(stdout);
      if (mode == kProfiled) print_profile(model, name);
    }
  return true;
}

}  // namespace
}  // namespace warptune::persistent

int main() {
  using namespace warptune::persistent;
  return warptune::evidence::run_program("persistent_step", [] {
    std::puts("model,mode,l2_prefetch,step_us,floor_us,pct_of_floor");
    const bool good = run<Llama1b>("llama3.2-1b");
    return run<TinyLlama>("tinyllama-1.1b") && good ? 0 : 1;
  });
}
