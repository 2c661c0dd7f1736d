#pragma once
// The decode step of persistent_step.cuh as a program: the ops of a LLaMA, cut into units and tiles, what the
// kernel takes, and its shared memory. The host writes the instructions of each block.
#include "kernels/common/barrier.cuh"
#include "kernels/common/numeric.cuh"
#include "kernels/common/tma.cuh"

namespace warptune::persistent {

/// How the probe runs the kernel.
enum Mode : int {
  kExchange,    // the step
  kStreamOnly,  // no waits for packets: the stream of weights alone, wrong outputs
  kProfiled,    // kExchange with clocks
};

template <int kLayersOf, int kQHeadsOf, int kKvHeadsOf, int kInnerOf, int kVocabOf>
struct Shape {
  static constexpr int kLayers = kLayersOf, kHidden = 2048, kQHeads = kQHeadsOf, kKvHeads = kKvHeadsOf,
                       kHeadDim = 64, kInner = kInnerOf, kVocab = kVocabOf;
  static constexpr int kGroup = kQHeads / kKvHeads, kQWidth = kQHeads * kHeadDim,
                       kQkvWidth = kQWidth + 2 * kKvHeads * kHeadDim;
  static constexpr int kContext = 512, kSplits = 4, kSplitTiles = kContext / 32 / kSplits;
  static constexpr long long kQkvAt = 0, kOAt = kQkvAt + 1ll * kQkvWidth * kHidden,
                             kGateUpAt = kOAt + 1ll * kHidden * kQWidth,
                             kDownAt = kGateUpAt + 2ll * kInner * kHidden,
                             kLayerWeights = kDownAt + 1ll * kHidden * kInner;
};
using Llama1b = Shape<16, 32, 8, 8192, 128256>;
using TinyLlama = Shape<22, 32, 4, 5632, 32000>;

enum Op : int { kQkv, kAttention, kO, kGateUp, kDown, kLmHead, kOps, kEnd = kOps };

/// Units [first, first + count) of an op.
struct Instruction {
  int op, layer, first, count;
};

constexpr int kTileRows = 8, kTileK = 512, kTileKeys = 32, kTileBytes = 8192;
constexpr int kStages = 24, kConsumers = 12, kConsumerThreads = kConsumers * 32;
constexpr int kThreads = kConsumerThreads + 32;
constexpr int kTileSlots = 64, kUnitSlots = 16, kMaxInstructions = 112;
// Tiles arrive in any order. A stage belongs to one warp, which waits for all of its tiles: a warp that had
// skipped one would take the parity of the tile before for that of its own.
static_assert(kStages % kConsumers == 0);

/// Tiles of a unit.
template <class S>
constexpr __host__ __device__ int unit_tiles(int op) {
  return op == kAttention ? S::kSplitTiles
         : op == kDown    ? S::kInner / kTileK
         : op == kO       ? S::kQWidth / kTileK
                          : S::kHidden / kTileK;
}
/// Units of an op in one layer.
template <class S>
constexpr int units(int op) {
  switch (op) {
    case kQkv:
      return S::kQkvWidth / kTileRows;
    case kAttention:
      return S::kKvHeads * S::kSplits;
    case kGateUp:
      return 2 * S::kInner / kTileRows;
    case kLmHead:
      return S::kVocab / kTileRows;
    default:
      return S::kHidden / kTileRows;
  }
}

/// What the blocks exchange: packets, and for lse 64 bits of float and tag. All zero before the first step.
struct Exchange {
  unsigned* qkv;            // [kQkvWidth]
  unsigned* attention;      // [kSplits, kQWidth]
  unsigned long long* lse;  // [kSplits, kQHeads]
  unsigned* middle;         // [kHidden], the residual after attention
  unsigned* inner;          // [kInner]
  unsigned* residual;       // [kHidden], after the layer
};

struct Args {
  const TensorMap* maps;  // [layers, 4] of qkv, o, gate_up, down, and that of head
  const bf16* weights;    // [layers, kLayerWeights]: qkv, o, gate_up, down, each [rows, k]
  const bf16* norms;      // [2 * layers + 1, kHidden]
  const bf16* embedding;  // [kVocab, kHidden]
  const bf16* head;       // [kVocab, kHidden]
  bf16* k_cache;          // [layers, kKvHeads, kContext, kHeadDim]
  bf16* v_cache;
  const float* inv_freq;       // [kHeadDim / 2]
  const Instruction* program;  // [blocks, kMaxInstructions]
  Exchange exchange;
  float* logits;             // [kVocab]
  unsigned long long* best;  // 0
  unsigned* arrived;         // 0
  unsigned* step;            // 0; each launch adds 1
  const int* token;
  int* next_token;
  unsigned* stuck;     // [blocks, warps], mapped host memory: what a warp waited for when it gave up
  long long* profile;  // [blocks, kOps, 3]: clocks until x is there, waiting for weights, of the instruction
  int position, layers, l2_prefetch;  // l2_prefetch: tiles
};

template <class S>
struct AttentionShared {
  bf16 q[S::kGroup][S::kHeadDim], k[S::kHeadDim], v[S::kHeadDim];
  float max[S::kSplitTiles][S::kGroup], sum[S::kSplitTiles][S::kGroup];
  float out[S::kSplitTiles][S::kGroup][S::kHeadDim];
};

template <class S>
struct alignas(1024) Shared {
  unsigned char stages[kStages][kTileBytes];
  union {  // down and attention are not active at the same time
    bf16 inner[S::kInner];
    AttentionShared<S> attention;
  };
  bf16 x[2][S::kHidden];  // of o: 1; of qkv, gate_up and lm_head: 0
  bf16 residual[S::kHidden];
  float partial[kTileSlots][kTileRows];
  float squares[2][kConsumers];
  Instruction program[kMaxInstructions];
  Mbarrier full[kStages], empty[kStages];
  unsigned long long best;
  long long profile[kOps][3];
  unsigned unit_arrived[kUnitSlots];
};

}  // namespace warptune::persistent
