// Where a layer of llama3.2-1b and tinyllama at batch 1 spends its time: the five kernels of their recorded
// steps under PDL, in chains of all, of some, and of one kernel that follows itself. tinyllama's attention
// combines by LL packets here, not in a cluster. The CSV goes to stdout: model, chain, us per layer. A chain
// runs over the weights of all layers four times in a CUDA graph; the time is the median of 20 replays. The
// weights are constant: nothing is verified.
// Build and run: scripts/evidence/probe.sh layer_chain --out FOLDER
#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>
#include <span>
#include <vector>

#include "kernels/attention_decode/mma_direct.cu"
#include "kernels/linear/gemv_bulk_copy.cu"
#include "kernels/linear/gemv_vectorized.cu"
#include "scripts/evidence/cuda_handles.cuh"

namespace warptune::evidence {
namespace {

constexpr int kRepeats = 4, kSpareKeys = 64, kBatch = 1;

struct Shape {
  int hidden, q_heads, kv_heads, head_dim, intermediate, layers, context;
};

enum Part { kQkv, kO, kGateUp, kDown, kKeys, kValues };  // weights and caches of a layer

/// Weights and caches of all layers, activations of one.
class Buffers {
 public:
  Shape shape;
  Device<char> q, rows, inner, residual, norm, workspace;
  Device<int> lengths;
  Device<float> inv_freq;

  explicit Buffers(const Shape& s)
      : shape(s),
        q(allocate<char>(1 << 20)),
        rows(allocate<char>(1 << 20)),
        inner(allocate<char>(1 << 20)),
        residual(allocate<char>(1 << 20)),
        norm(allocate<char>(1 << 20)),
        workspace(allocate<char>(16 << 20)),
        lengths(allocate<int>(1)),
        inv_freq(allocate<float>(s.head_dim)) {
    const long long row = 2LL * s.hidden, cache = 2LL * s.kv_heads * (s.context + kSpareKeys) * s.head_dim;
    sizes_ = {(s.q_heads + 2 * s.kv_heads) * s.head_dim * row,
              s.q_heads * s.head_dim * row,
              2 * s.intermediate * row,
              s.intermediate * row,
              cache,
              cache};
    for (const long long size : sizes_) layer_bytes_ += size;
    memory_ = allocate<char>(layer_bytes_ * s.layers);
    CHECKED(cudaMemset(memory_.get(), 0x11, static_cast<std::size_t>(layer_bytes_ * s.layers)));
    CHECKED(cudaMemcpy(lengths.get(), &s.context, sizeof s.context, cudaMemcpyDefault));
  }
  char* at(int layer, Part part) const {
    long long offset = layer_bytes_ * layer;
    for (int i = 0; i < part; ++i) offset += sizes_[i];
    return memory_.get() + offset;
  }

 private:
  std::array<long long, 6> sizes_;  // by Part
  long long layer_bytes_ = 0;
  Device<char> memory_;
};

using Kernel = std::function<void(const Buffers&, int layer, cudaStream_t)>;

template <class Args>
Args linear_args(const Buffers& b, int layer, Part part) {
  Args args{};
  args.x = part == kO ? b.rows.get() : part == kDown ? b.inner.get() : b.residual.get();
  args.weight = b.at(layer, part);
  args.y = part == kQkv ? b.q.get() : part == kGateUp ? b.inner.get() : b.residual.get();
  args.workspace = b.workspace.get();
  args.tokens = kBatch;
  args.norm_weight = b.norm.get();
  args.residual = b.residual.get();
  args.eps = 1e-5f;
  return args;
}

template <Part kPart, int kIn, int kOut, int kPrologue, int kEpilogue, int kBlocksPerSm, int kWarps,
          int kRows, int kTileK, int kStages, int kStagger>
Kernel bulk_copy() {
  return [](const Buffers& b, int layer, cudaStream_t stream) {
    using Args = LinearArgsOf<kPrologue, kEpilogue>;
    launch_pdl(linear_gemv_bulk_copy<bf16, kBatch, kIn, kOut, 0, kPrologue, kEpilogue, kWarps, kRows, kTileK,
                                     kStages, 0, kStagger, 0, 0>,
               linear_args<Args>(b, layer, kPart), dim3(sm_count() * kBlocksPerSm), kWarps * 32,
               2 * (kWarps * kStages * kRows * kTileK + kIn) + 8 * kWarps * kStages, stream);
  };
}
template <Part kPart, int kIn, int kOut>
Kernel vectorized() {
  constexpr int kWarps = 8, kRows = 4;
  return [](const Buffers& b, int layer, cudaStream_t stream) {
    using Args = LinearArgsOf<kPrologueNone, kEpilogueAdd>;
    launch_pdl(linear_gemv_vectorized<bf16, kBatch, kIn, kOut, 0, kEpilogueAdd, kWarps, kWarps, kRows, 1>,
               linear_args<Args>(b, layer, kPart), dim3(kOut / kRows), kWarps * 32, 0, stream);
  };
}
template <int kQHeads, int kKvHeads, int kHeadDim, int kSplits, int kTileKv>
Kernel attention() {
  constexpr int kWarps = 8;
  return [](const Buffers& b, int layer, cudaStream_t stream) {
    using P = DecodeProblem<bf16, kQHeads, kKvHeads, kHeadDim, false, true>;
    using Block = BlockCombine<P, kWarps, P::kGroup, kSplits, Combine::ll>;
    AttentionDecodeArgs args{};
    args.q = b.q.get();
    args.k_cache = b.at(layer, kKeys);
    args.v_cache = b.at(layer, kValues);
    args.lengths = b.lengths.get();
    args.inv_freq = b.inv_freq.get();
    args.out = b.rows.get();
    args.workspace = b.workspace.get() + (8 << 20);
    args.batch = kBatch;
    args.capacity = b.shape.context + kSpareKeys;
    args.scale = 0.125f;
    launch_pdl(
        attention_decode_mma_direct<P, kWarps, kWarps, kTileKv, kSplits, static_cast<int>(Combine::ll)>, args,
        dim3(kSplits, kKvHeads, kBatch), kWarps * 32,
        std::max(sizeof(MmaAppend<P, kWarps * 32>), sizeof(Block)), stream);
  };
}

/// Median microseconds per layer.
double time_chain(const Buffers& b, std::span<const Kernel> chain) {
  const Stream stream = make_stream();
  const CapturedGraph graph = capture(stream.get(), [&] {
    for (int repeat = 0; repeat < kRepeats; ++repeat)
      for (int layer = 0; layer < b.shape.layers; ++layer)
        for (const Kernel& kernel : chain) kernel(b, layer, stream.get());
  });
  return median_us(graph, stream.get()) / (kRepeats * b.shape.layers);
}

/// layer: qkv, attention, o, gate_up, down.
void print_chains(const char* model, const Shape& shape, const std::vector<Kernel>& layer) {
  struct Chain {
    const char* name;
    std::vector<int> kernels;
  };
  const Chain chains[] = {{"layer", {0, 1, 2, 3, 4}},
                          {"without attention", {0, 2, 3, 4}},
                          {"without attention and o", {0, 3, 4}},
                          {"gate_up, down", {3, 4}},
                          {"attention, o", {1, 2}},
                          {"qkv", {0}},
                          {"attention", {1}},
                          {"o", {2}},
                          {"gate_up", {3}},
                          {"down", {4}}};
  const Buffers buffers(shape);
  for (const Chain& chain : chains) {
    std::vector<Kernel> kernels;
    for (const int k : chain.kernels) kernels.push_back(layer[static_cast<std::size_t>(k)]);
    std::printf("%s,\"%s\",%.2f\n", model, chain.name, time_chain(buffers, kernels));
  }
}

int run() {
  std::printf("model,chain,us_per_layer\n");
  print_chains("llama3.2-1b", {2048, 32, 8, 64, 8192, 16, 512},
               {bulk_copy<kQkv, 2048, 3072, kPrologueRmsNorm, kEpilogueNone, 2, 16, 2, 512, 2, 0>(),
                attention<32, 8, 64, 4, 32>(), vectorized<kO, 2048, 2048>(),
                bulk_copy<kGateUp, 2048, 8192, kPrologueRmsNorm, kEpilogueSwiglu, 2, 8, 4, 512, 3, 0>(),
                bulk_copy<kDown, 8192, 2048, kPrologueNone, kEpilogueAdd, 1, 8, 2, 2048, 3, 1>()});
  print_chains("tinyllama-1.1b", {2048, 32, 4, 64, 5632, 22, 1024},
               {bulk_copy<kQkv, 2048, 2560, kPrologueRmsNorm, kEpilogueNone, 1, 8, 2, 2048, 2, 0>(),
                attention<32, 4, 64, 8, 16>(), vectorized<kO, 2048, 2048>(),
                bulk_copy<kGateUp, 2048, 5632, kPrologueRmsNorm, kEpilogueSwiglu, 1, 8, 2, 2048, 3, 0>(),
                vectorized<kDown, 5632, 2048>()});
  return 0;
}

}  // namespace
}  // namespace warptune::evidence

int main() { return warptune::evidence::run_program("layer_chain", warptune::evidence::run); }
