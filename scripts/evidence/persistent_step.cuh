#pragma once
// The decode step of a LLaMA as one persistent kernel (sm_90): batch 1, bf16, head_dim 64.
// Grid: one block per SM, all resident. Every block runs a program: a list of instructions, each a range of
//   units of one op of one layer. A unit is 8 output rows, or one split of a KV head in attention. A unit is
//   cut into tiles of 8 KB: 8 rows x 512 weights, or 32 keys and values.
// Roles: a producer warp loads the tiles of the whole program into a kStages-deep pipeline, one TMA box each.
//   It depends on no other block, so that it loads ahead of the ops by as many stages as are free, and
//   prefetches further tiles into the L2. kConsumers consumer warps compute; a stage belongs to one of them.
// Compute: m16n8k16 with the weights as B (8 rows) and x as A (row 0 is the token). A lane loads 16 bytes of
//   a weight row, which are b0 and b1 of two products: any order of k is right if x has the same.
// Sync: full and empty mbarrier per stage. Between blocks no barrier and no fence: outputs travel as
//   flag-in-data packets of 32 bits (bf16 value, 16-bit tag of step and layer), and the consumers of an op
//   poll for its inputs. Stores of layer l + 1 cannot overtake loads of layer l, since every block computes
//   rows of every op that all other blocks wait for.
// Norm: x * weight is the operand; the factor 1 / rms, known a barrier later, multiplies the outputs.
// Source: Hazy Research, "Look Ma, No Bubbles" (a megakernel for Llama-1B); the LL protocol of NCCL.
#include "kernels/common/mma.cuh"
#include "kernels/common/rope.cuh"
#include "kernels/common/special_registers.cuh"
#include "kernels/common/tma.cuh"
#include "kernels/common/vec.cuh"
#include "kernels/swiglu/silu.cuh"

namespace warptune::persistent {

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

/// Ends the kernel with an error when a wait takes longer than a second.
struct Watchdog {
  unsigned* stuck;  // [blocks, warps]
  unsigned place;
  unsigned spins = 0;
  long long start = 0;
  __device__ __forceinline__ void spin() {
    if (++spins % 1024 != 0) return;
    const long long now = global_timer_ns();
    if (start == 0) start = now;
    if (now - start > 1'000'000'000) {
      reinterpret_cast<volatile unsigned*>(stuck)[(blockIdx.x * kThreads + threadIdx.x) / 32] = place;
      __threadfence_system();
      __trap();
    }
  }
};

__device__ __forceinline__ void wait(Mbarrier* barrier, unsigned parity, Watchdog dog) {
  for (;; dog.spin()) {
    unsigned done;
    asm volatile(
        "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
        : "=r"(done)
        : "r"(shared_address(barrier)), "r"(parity)
        : "memory");
    if (done) return;
  }
}

/// A box of a 4D tensor map, and its prefetch into the L2. One thread.
__device__ __forceinline__ void tma_load_4d(void* shared, const TensorMap& map, int x, int y, int z, int w,
                                            Mbarrier* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], "
      "[%1, {%2, %3, %4, %5}], [%6], %7;" ::"r"(shared_address(shared)),
      "l"(&map), "r"(x), "r"(y), "r"(z), "r"(w), "r"(shared_address(barrier)), "l"(l2_evict_first_policy())
      : "memory");
}
__device__ __forceinline__ void tma_prefetch_4d(const TensorMap& map, int x, int y, int z, int w) {
  asm volatile("cp.async.bulk.prefetch.tensor.4d.L2.global [%0, {%1, %2, %3, %4}];" ::"l"(&map), "r"(x),
               "r"(y), "r"(z), "r"(w)
               : "memory");
}

// Packets: value in the high half, tag in the low half.

__device__ __forceinline__ unsigned packet(float value, unsigned tag) {
  return static_cast<unsigned>(from_float<bf16>(value).bits) << 16 | tag;
}
__device__ __forceinline__ float value_of(unsigned packet) { return __uint_as_float(packet & 0xffff0000u); }
/// The values of two packets, `low` in the low half.
__device__ __forceinline__ unsigned values_of(unsigned low, unsigned high) {
  return __byte_perm(low, high, 0x7632);
}
__device__ __forceinline__ void send(unsigned* slot, unsigned packet) {
  asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(slot), "r"(packet) : "memory");
}
__device__ __forceinline__ unsigned peek(const unsigned* slot) {
  unsigned p;
  asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(p) : "l"(slot) : "memory");
  return p;
}
__device__ __forceinline__ unsigned long long peek(const unsigned long long* slot) {
  unsigned long long p;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(p) : "l"(slot) : "memory");
  return p;
}
__device__ __forceinline__ uint4 peek4(const unsigned* slot) {
  uint4 p;
  asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(p.x), "=r"(p.y), "=r"(p.z), "=r"(p.w)
               : "l"(slot)
               : "memory");
  return p;
}
__device__ __forceinline__ bool has_tag(const uint4& p, unsigned tag) {
  return (((p.x ^ tag) | (p.y ^ tag) | (p.z ^ tag) | (p.w ^ tag)) & 0xffffu) == 0;
}

/// How the probe runs the kernel.
enum Mode : int {
  kExchange,    // the step
  kStreamOnly,  // no waits for packets: the stream of weights alone, wrong outputs
  kProfiled,    // kExchange with clocks
};

template <class S, Mode kMode>
class Block {
 public:
  __device__ Block(const Args& args, Shared<S>& shared)
      : args_(args), s_(shared), lane_(threadIdx.x % 32), warp_(threadIdx.x / 32) {}

  __device__ void run() {
    const auto* program = reinterpret_cast<const int4*>(args_.program + blockIdx.x * kMaxInstructions);
    for (int i = threadIdx.x; i < kMaxInstructions; i += kThreads)
      reinterpret_cast<int4*>(s_.program)[i] = program[i];
    if (threadIdx.x < kStages) {
      mbarrier_init(s_.full + threadIdx.x);
      mbarrier_init(s_.empty + threadIdx.x);
    }
    if (threadIdx.x < kUnitSlots) s_.unit_arrived[threadIdx.x] = 0;
    if (threadIdx.x < kOps * 3) s_.profile[threadIdx.x / 3][threadIdx.x % 3] = 0;
    if (threadIdx.x == 0) s_.best = 0;
    first_tag_ = *args_.step * static_cast<unsigned>(args_.layers) + 1;
    mbarrier_init_fence();
    __syncthreads();
    if (warp_ >= kConsumers) {
      if (lane_ == 0) produce();
    } else {
      consume();
      finish();
    }
  }

 private:
  // ---- producer ----

  /// A tile of the program.
  struct Cursor {
    const Instruction* at;
    int unit = 0, tile = 0;
    __device__ bool ended() const { return at->op == kEnd; }
    __device__ void advance() {
      if (++tile < unit_tiles<S>(at->op)) return;
      tile = 0;
      if (++unit < at->count) return;
      unit = 0;
      ++at;
    }
  };
  /// Where a tile comes from: of weights a box of a tensor map, of a cache the keys.
  __device__ const TensorMap& map(const Instruction& i) const {
    return args_.maps[i.op == kLmHead ? args_.layers * 4 : i.layer * 4 + (i.op == kQkv ? 0 : i.op - 1)];
  }
  __device__ int row(const Cursor& cursor) const {
    return (cursor.at->first + cursor.unit) * (cursor.at->op == kGateUp ? kTileRows / 2 : kTileRows);
  }
  __device__ long long keys(const Cursor& cursor) const {
    const int unit = cursor.at->first + cursor.unit;
    const int key = (unit % S::kSplits * S::kSplitTiles + cursor.tile) * kTileKeys;
    return ((1ll * cursor.at->layer * S::kKvHeads + unit / S::kSplits) * S::kContext + key) * S::kHeadDim;
  }

  __device__ void prefetch(const Cursor& cursor) const {
    if (cursor.at->op == kAttention) {
      bulk_prefetch_l2(args_.k_cache + keys(cursor), kTileBytes / 2);
      bulk_prefetch_l2(args_.v_cache + keys(cursor), kTileBytes / 2);
    } else {
      tma_prefetch_4d(map(*cursor.at), 0, row(cursor), 0, cursor.tile * (kTileK / 64));
    }
  }
  __device__ void load(const Cursor& cursor, int stage) {
    unsigned char* const to = s_.stages[stage];
    mbarrier_arrive_expect_tx(s_.full + stage, kTileBytes);
    if (cursor.at->op == kAttention) {
      bulk_copy_evict_first(to, args_.k_cache + keys(cursor), kTileBytes / 2, s_.full + stage);
      bulk_copy_evict_first(to + kTileBytes / 2, args_.v_cache + keys(cursor), kTileBytes / 2,
                            s_.full + stage);
    } else {
      tma_load_4d(to, map(*cursor.at), 0, row(cursor), 0, cursor.tile * (kTileK / 64), s_.full + stage);
    }
  }

  /// One thread.
  __device__ void produce() {
    Cursor next{s_.program}, ahead{s_.program};
    for (int i = 0; i < args_.l2_prefetch && !ahead.ended(); ++i) ahead.advance();
    int stage = 0;
    unsigned phase = 0;
    for (; !next.ended(); next.advance()) {
      if (args_.l2_prefetch > 0 && !ahead.ended()) {
        prefetch(ahead);
        ahead.advance();
      }
      wait(s_.empty + stage, phase ^ 1, {args_.stuck, place(0x10, *next.at)});
      load(next, stage);
      if (++stage == kStages) {
        stage = 0;
        phase ^= 1;
      }
    }
  }

  // ---- consumers ----

  __device__ void consume() {
    for (const Instruction* i = s_.program; i->op != kEnd; ++i) {
      const long long start = clock();
      const bf16* x = nullptr;
      float scale = 1;
      switch (i->op) {
        case kQkv:
          x = gather_normalized(*i, 0, scale);
          break;
        case kAttention:
          gather_heads(*i);
          break;
        case kO:
          x = gather_attention(*i);
          break;
        case kGateUp:
          x = gather_normalized(*i, 1, scale);
          break;
        case kDown:
          x = gather_inner(*i);
          break;
        default:
          x = gather_normalized(*i, 0, scale);
      }
      const long long ready = clock();
      const int tiles_per_unit = unit_tiles<S>(i->op), tiles = i->count * tiles_per_unit;
      long long waited = 0;
      for (int n = (warp_ - first_tile_ % kConsumers + kConsumers) % kConsumers; n < tiles; n += kConsumers) {
        const int stage = (first_tile_ + n) % kStages, unit = n / tiles_per_unit, tile = n % tiles_per_unit;
        const int slot = (first_unit_ + unit) % kUnitSlots;
        const long long asked = clock();
        wait(s_.full + stage, (first_tile_ + n) / kStages % 2, {args_.stuck, place(0x20, *i)});
        waited += clock() - asked;
        if (i->op == kAttention)
          attend(*i, stage, tile);
        else
          multiply(stage, x + tile * kTileK, s_.partial[(first_tile_ + n) % kTileSlots]);
        if (is_last_tile(slot, tiles_per_unit)) {
          if (i->op == kAttention)
            send_attention(*i);
          else
            send_rows(*i, i->first + unit, first_tile_ + unit * tiles_per_unit, tiles_per_unit, scale);
        }
      }
      if (kMode == kProfiled && threadIdx.x == 0) {
        s_.profile[i->op][0] += ready - start;
        s_.profile[i->op][1] += waited;
        s_.profile[i->op][2] += clock() - start;
      }
      first_tile_ += tiles;
      first_unit_ += i->count;
    }
  }

  /// One tile of a product: out[r] = sum over k of stage[r][k] * x[k]. The tile is [8 chunks][8 rows][64],
  /// 16-byte pieces swizzled by the row; x lies as store_x() puts it.
  __device__ void multiply(int stage, const bf16* x, float* out) {
    const int g = lane_ / 4, t = lane_ % 4, row = lane_ % 8, piece = lane_ / 8;
    const unsigned weights = shared_address(s_.stages[stage]) + row * 128 + ((piece ^ row) * 16);
    const auto* values = reinterpret_cast<const uint4*>(x) + t;  // rows 1 to 7 of A are not used
    float sums[4][4] = {};
#pragma unroll
    for (int j = 0; j < kTileK / 32; ++j) {
      unsigned w[4];
      ldmatrix_x4(w, (weights ^ j % 2 * 64) + j / 2 * 1024);
      const uint4 v = values[j * 4];
      mma_m16n8k16<bf16>(sums[2 * j % 4], {v.x, 0, v.y, 0}, w[0], w[1]);
      mma_m16n8k16<bf16>(sums[2 * j % 4 + 1], {v.z, 0, v.w, 0}, w[2], w[3]);
    }
    release(stage);
    if (g == 0)
      *reinterpret_cast<float2*>(out + 2 * t) = {sums[0][0] + sums[1][0] + sums[2][0] + sums[3][0],
                                                 sums[0][1] + sums[1][1] + sums[2][1] + sums[3][1]};
  }

  /// 32 keys of a KV head for the query heads of its group: maximum, sum and output.
  __device__ void attend(const Instruction& i, int stage, int tile) {
    const int g = lane_ / 4, t = lane_ % 4, head = g % S::kGroup;
    AttentionShared<S>& a = s_.attention;
    unsigned char* const keys = s_.stages[stage];
    unsigned char* const values = keys + kTileBytes / 2;
    const int first_key = (i.first % S::kSplits * S::kSplitTiles + tile) * kTileKeys;
    const int row = args_.position - first_key;
    if (row >= 0 && row < kTileKeys) {  // the new token
      const unsigned k = reinterpret_cast<const unsigned*>(a.k)[lane_];
      const unsigned v = reinterpret_cast<const unsigned*>(a.v)[lane_];
      reinterpret_cast<unsigned*>(keys + row * 128)[lane_] = k;
      reinterpret_cast<unsigned*>(values + row * 128)[lane_] = v;
      const long long at =
          ((1ll * i.layer * S::kKvHeads + i.first / S::kSplits) * S::kContext + args_.position) * S::kHeadDim;
      reinterpret_cast<unsigned*>(args_.k_cache + at)[lane_] = k;
      reinterpret_cast<unsigned*>(args_.v_cache + at)[lane_] = v;
      __syncwarp();
    }
    float score[4][4];
    float maximum = -INFINITY;
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      float d[4] = {};
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const uint4 k = *reinterpret_cast<const uint4*>(keys + (n * 8 + g) * 128 + (j * 4 + t) * 16);
        const uint4 q = reinterpret_cast<const uint4*>(a.q[head])[j * 4 + t];
        mma_m16n8k16<bf16>(d, {q.x, 0, q.y, 0}, k.x, k.y);
        mma_m16n8k16<bf16>(d, {q.z, 0, q.w, 0}, k.z, k.w);
      }
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        score[n][c] = n * 8 + 2 * t + c <= row ? d[c] * 0.125f : -INFINITY;
        maximum = fmaxf(maximum, score[n][c]);
      }
    }
    maximum = fmaxf(maximum, __shfl_xor_sync(~0u, maximum, 1));
    maximum = fmaxf(maximum, __shfl_xor_sync(~0u, maximum, 2));
    const float from = maximum == -INFINITY ? 0 : maximum;
    float sum = 0;
#pragma unroll
    for (int n = 0; n < 4; ++n)
#pragma unroll
      for (int c = 0; c < 2; ++c) sum += score[n][c] = __expf(score[n][c] - from);
    sum += __shfl_xor_sync(~0u, sum, 1);
    sum += __shfl_xor_sync(~0u, sum, 2);
    float out[8][4] = {};
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      const unsigned p0 = pack2<bf16>(score[2 * k][0], score[2 * k][1]),
                     p1 = pack2<bf16>(score[2 * k + 1][0], score[2 * k + 1][1]);
#pragma unroll
      for (int n = 0; n < 4; ++n) {  // 16 keys x 16 dimensions
        unsigned b[4];
        ldmatrix_x4_trans(b, values + (k * 16 + lane_ % 16) * 128 + (n * 16 + lane_ / 16 * 8) * 2);
        mma_m16n8k16<bf16>(out[2 * n], {p0, 0, p1, 0}, b[0], b[1]);
        mma_m16n8k16<bf16>(out[2 * n + 1], {p0, 0, p1, 0}, b[2], b[3]);
      }
    }
    release(stage);
    if (g < S::kGroup) {
      if (t == 0) {
        a.max[tile][g] = maximum;
        a.sum[tile][g] = sum;
      }
#pragma unroll
      for (int n = 0; n < 8; ++n)
        *reinterpret_cast<float2*>(&a.out[tile][g][n * 8 + 2 * t]) = {out[n][0], out[n][1]};
    }
  }

  /// Hands a stage back to the producer.
  __device__ void release(int stage) {
    fence_proxy_async();
    __syncwarp();
    if (lane_ == 0) mbarrier_arrive(s_.empty + stage);
  }

  /// Whether this warp is the last that has stored a tile of the unit; then it sees the others' tiles. A warp
  /// is at most kStages + kConsumers tiles behind another, fewer than the slots hold beside a unit of 16.
  __device__ bool is_last_tile(int slot, int tiles) {
    static_assert(kStages + kConsumers + 16 < kTileSlots && kTileSlots / 4 <= kUnitSlots);
    __syncwarp();
    bool last = false;
    if (lane_ == 0) {
      __threadfence_block();
      last = atomicAdd(s_.unit_arrived + slot, 1u) == static_cast<unsigned>(tiles - 1);
      if (last) s_.unit_arrived[slot] = 0;
      __threadfence_block();
    }
    return __shfl_sync(~0u, last, 0);
  }

  /// The epilogue of a unit, whose tiles start with `first`.
  __device__ void send_rows(const Instruction& i, int unit, int first, int tiles, float scale) {
    const int r = lane_ % kTileRows, row = unit * kTileRows + r;
    float y = 0;
    for (int tile = lane_ / kTileRows; tile < tiles; tile += 32 / kTileRows)
      y += s_.partial[(first + tile) % kTileSlots][r];
    y += __shfl_xor_sync(~0u, y, 8);
    y += __shfl_xor_sync(~0u, y, 16);
    y *= scale;
    const float up = __shfl_down_sync(~0u, y, 4);
    const unsigned tag = tag_of(i.layer);
    if (lane_ >= kTileRows) return;
    switch (i.op) {
      case kQkv:
        send(args_.exchange.qkv + row, packet(y, tag));
        break;
      case kO:
        send(args_.exchange.middle + row, packet(y + to_float(s_.residual[row]), tag));
        break;
      case kGateUp:
        if (r < 4) send(args_.exchange.inner + unit * 4 + r, packet(silu(y) * up, tag));
        break;
      case kDown:
        send(args_.exchange.residual + row, packet(y + to_float(s_.residual[row]), tag));
        break;
      default: {
        args_.logits[row] = y;
        const unsigned bits = __float_as_uint(y);
        const unsigned ordered = bits >> 31 ? ~bits : bits | 0x80000000u;
        const unsigned long long key =
            static_cast<unsigned long long>(ordered) << 32 | ~static_cast<unsigned>(row);
        best_ = best_ > key ? best_ : key;
      }
    }
  }

  /// Combines the tiles of a split and sends output and log-sum-exp.
  __device__ void send_attention(const Instruction& i) {
    const AttentionShared<S>& a = s_.attention;
    const int split = i.first % S::kSplits, first_head = i.first / S::kSplits * S::kGroup;
    const unsigned tag = tag_of(i.layer);
    for (int n = lane_; n < S::kGroup * S::kHeadDim / 4; n += 32) {
      const int head = n / (S::kHeadDim / 4), dim = n % (S::kHeadDim / 4) * 4;
      float maximum = -INFINITY, sum = 0;
      float4 y = {};
#pragma unroll
      for (int tile = 0; tile < S::kSplitTiles; ++tile) maximum = fmaxf(maximum, a.max[tile][head]);
      const float from = maximum == -INFINITY ? 0 : maximum;
#pragma unroll
      for (int tile = 0; tile < S::kSplitTiles; ++tile) {
        const float factor = __expf(a.max[tile][head] - from);
        const float4 out = *reinterpret_cast<const float4*>(&a.out[tile][head][dim]);
        sum += factor * a.sum[tile][head];
        y.x += factor * out.x, y.y += factor * out.y, y.z += factor * out.z, y.w += factor * out.w;
      }
      const float factor = sum > 0 ? 1 / sum : 0;
      unsigned* const to =
          args_.exchange.attention + split * S::kQWidth + (first_head + head) * S::kHeadDim + dim;
      asm volatile("st.relaxed.gpu.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to),
                   "r"(packet(y.x * factor, tag)), "r"(packet(y.y * factor, tag)),
                   "r"(packet(y.z * factor, tag)), "r"(packet(y.w * factor, tag))
                   : "memory");
      if (dim == 0) {
        const unsigned long long lse =
            static_cast<unsigned long long>(__float_as_uint(maximum + __logf(sum))) << 32 | tag;
        asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(args_.exchange.lse + split * S::kQHeads +
                                                                 first_head + head),
                     "l"(lse)
                     : "memory");
      }
    }
  }

  // ---- inputs of the ops, from packets to shared memory ----

  /// The tag of the packets that a layer sends.
  __device__ unsigned tag_of(int layer) const { return (first_tag_ + layer) & 0xffffu; }

  static constexpr __device__ int per_thread(int vectors) { return ceil_div(vectors, kConsumerThreads); }

  /// Loads N vectors of four packets per thread; vectors are kConsumerThreads apart.
  template <int N>
  __device__ void receive(const unsigned* from, int vectors, unsigned tag, unsigned where, uint4 (&p)[N]) {
#pragma unroll
    for (int n = 0; n < N; ++n)
      if (const int v = threadIdx.x + n * kConsumerThreads; v < vectors) p[n] = peek4(from + v * 4);
#pragma unroll
    for (int n = 0; n < N; ++n)
      if (const int v = threadIdx.x + n * kConsumerThreads; v < vectors) {
        Watchdog dog{args_.stuck, where};
        for (; kMode != kStreamOnly && !has_tag(p[n], tag); p[n] = peek4(from + v * 4)) dog.spin();
      }
  }

  /// Stores four elements of an input, two per word. Of 32 elements, the four words that one lane of
  /// multiply() needs lie together.
  static __device__ void store_x(bf16* x, int vector, unsigned low, unsigned high) {
    const int word = vector * 2 % 16;
    unsigned* const to = reinterpret_cast<unsigned*>(x) + vector / 8 * 16 + word % 4 * 4 + word / 4;
    to[0] = low;
    to[4] = high;
  }

  /// The residual, and the residual times the weight of the norm. `scale` becomes 1 / rms.
  __device__ const bf16* gather_normalized(const Instruction& i, int second, float& scale) {
    constexpr int kVectors = S::kHidden / 4, kPerThread = per_thread(kVectors);
    const bf16* const norm = args_.norms + (i.layer * 2 + second) * S::kHidden;
    Vec<float, 4> weight[kPerThread];
#pragma unroll
    for (int n = 0; n < kPerThread; ++n)
      if (const int v = threadIdx.x + n * kConsumerThreads; v < kVectors)
        weight[n] = to_float(load_vec<4>(norm + v * 4));
    uint4 p[kPerThread];
    const bool first = i.op == kQkv && i.layer == 0;
    if (!first)
      receive(second ? args_.exchange.middle : args_.exchange.residual, kVectors,
              tag_of(second ? i.layer : i.layer - 1), place(0x30, i), p);
    float squares = 0;
#pragma unroll
    for (int n = 0; n < kPerThread; ++n) {
      const int v = threadIdx.x + n * kConsumerThreads;
      if (v >= kVectors) continue;
      Vec<unsigned, 2> raw;
      if (first)
        raw = load_vec<2>(
            reinterpret_cast<const unsigned*>(args_.embedding + 1ll * *args_.token * S::kHidden) + v * 2);
      else
        raw = {values_of(p[n].x, p[n].y), values_of(p[n].z, p[n].w)};
      store_vec<2>(reinterpret_cast<unsigned*>(s_.residual) + v * 2, raw);
      unsigned word[2];
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const float low = __uint_as_float(raw[j] << 16), high = __uint_as_float(raw[j] & 0xffff0000u);
        squares += low * low + high * high;
        word[j] = pack2<bf16>(low * weight[n][2 * j], high * weight[n][2 * j + 1]);
      }
      store_x(s_.x[0], v, word[0], word[1]);
    }
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2) squares += __shfl_xor_sync(~0u, squares, mask);
    if (lane_ == 0) s_.squares[second][warp_] = squares;
    named_barrier_sync(1, kConsumerThreads);
    float sum = 0;
#pragma unroll
    for (int w = 0; w < kConsumers; ++w) sum += s_.squares[second][w];
    scale = rsqrtf(sum / S::kHidden + 1e-5f);
    return s_.x[0];
  }

  /// A warp per head: the query heads of the group, key and value of the new token, with RoPE.
  __device__ void gather_heads(const Instruction& i) {
    static_assert(S::kGroup + 2 <= kConsumers);
    const int kv_head = i.first / S::kSplits;
    AttentionShared<S>& a = s_.attention;
    if (warp_ < S::kGroup + 2) {
      const int head = warp_ < S::kGroup    ? kv_head * S::kGroup + warp_
                       : warp_ == S::kGroup ? S::kQHeads + kv_head
                                            : S::kQHeads + S::kKvHeads + kv_head;
      float sine, cosine;
      sin_cos(args_.position * args_.inv_freq[lane_], sine, cosine);
      const unsigned* const from = args_.exchange.qkv + head * S::kHeadDim + lane_;
      const unsigned tag = tag_of(i.layer);
      Watchdog dog{args_.stuck, place(0x40, i)};
      unsigned p[2];
      for (;; dog.spin()) {
        p[0] = peek(from);
        p[1] = peek(from + 32);
        if (kMode == kStreamOnly || (((p[0] ^ tag) | (p[1] ^ tag)) & 0xffffu) == 0) break;
      }
      __syncwarp();
      float x = value_of(p[0]), y = value_of(p[1]);
      if (warp_ <= S::kGroup) {
        const float turned = x * cosine - y * sine;
        y = y * cosine + x * sine;
        x = turned;
      }
      bf16* const to = warp_ < S::kGroup ? a.q[warp_] : warp_ == S::kGroup ? a.k : a.v;
      to[lane_] = from_float<bf16>(x);
      to[lane_ + 32] = from_float<bf16>(y);
    }
    named_barrier_sync(1, kConsumerThreads);
  }

  /// The outputs of attention, combined over the splits.
  __device__ const bf16* gather_attention(const Instruction& i) {
    constexpr int kVectors = S::kQWidth / 4, kPerThread = per_thread(kVectors);
    const unsigned tag = tag_of(i.layer);
    unsigned long long lse[kPerThread][S::kSplits];
    uint4 p[kPerThread][S::kSplits];
    const auto load = [&](int n, int split, int v) {
      lse[n][split] = peek(args_.exchange.lse + split * S::kQHeads + v * 4 / S::kHeadDim);
      p[n][split] = peek4(args_.exchange.attention + split * S::kQWidth + v * 4);
    };
#pragma unroll
    for (int n = 0; n < kPerThread; ++n)
#pragma unroll
      for (int split = 0; split < S::kSplits; ++split)
        if (const int v = threadIdx.x + n * kConsumerThreads; v < kVectors) load(n, split, v);
#pragma unroll
    for (int n = 0; n < kPerThread; ++n) {
      const int v = threadIdx.x + n * kConsumerThreads;
      if (v >= kVectors) continue;
      float maximum = -INFINITY, sum = 0;
      Vec<float, 4> y = {};
#pragma unroll
      for (int split = 0; split < S::kSplits; ++split) {
        Watchdog dog{args_.stuck, place(0x50, i)};
        while (kMode != kStreamOnly &&
               !(static_cast<unsigned>(lse[n][split]) == tag && has_tag(p[n][split], tag))) {
          dog.spin();
          load(n, split, v);
        }
        maximum = fmaxf(maximum, __uint_as_float(static_cast<unsigned>(lse[n][split] >> 32)));
      }
#pragma unroll
      for (int split = 0; split < S::kSplits; ++split) {
        const float factor = __expf(__uint_as_float(static_cast<unsigned>(lse[n][split] >> 32)) - maximum);
        sum += factor;
        y[0] += factor * value_of(p[n][split].x), y[1] += factor * value_of(p[n][split].y);
        y[2] += factor * value_of(p[n][split].z), y[3] += factor * value_of(p[n][split].w);
      }
      const float scale = 1 / sum;
      store_x(s_.x[1], v, pack2<bf16>(y[0] * scale, y[1] * scale), pack2<bf16>(y[2] * scale, y[3] * scale));
    }
    named_barrier_sync(1, kConsumerThreads);
    return s_.x[1];
  }

  __device__ const bf16* gather_inner(const Instruction& i) {
    constexpr int kVectors = S::kInner / 4, kPerThread = per_thread(kVectors);
    uint4 p[kPerThread];
    receive(args_.exchange.inner, kVectors, tag_of(i.layer), place(0x60, i), p);
#pragma unroll
    for (int n = 0; n < kPerThread; ++n)
      if (const int v = threadIdx.x + n * kConsumerThreads; v < kVectors)
        store_x(s_.inner, v, values_of(p[n].x, p[n].y), values_of(p[n].z, p[n].w));
    named_barrier_sync(1, kConsumerThreads);
    return s_.inner;
  }

  // ---- end ----

  /// The argmax over all blocks; the last block stores it and resets the counters.
  __device__ void finish() {
#pragma unroll
    for (int mask = 4; mask > 0; mask /= 2) {
      const unsigned long long other = __shfl_xor_sync(~0u, best_, mask);
      best_ = best_ > other ? best_ : other;
    }
    if (lane_ == 0) atomicMax(&s_.best, best_);
    named_barrier_sync(1, kConsumerThreads);
    if constexpr (kMode == kProfiled)
      if (threadIdx.x < kOps * 3)
        args_.profile[blockIdx.x * kOps * 3 + threadIdx.x] = s_.profile[threadIdx.x / 3][threadIdx.x % 3];
    if (threadIdx.x != 0) return;
    atomicMax(args_.best, s_.best);
    if (atomic_increment_acq_rel(args_.arrived) != gridDim.x - 1) return;
    *args_.next_token = static_cast<int>(~static_cast<unsigned>(atomicExch(args_.best, 0ull)));
    *args_.arrived = 0;
    ++*args_.step;
  }

  static __device__ unsigned place(unsigned what, const Instruction& i) {
    return what << 24 | static_cast<unsigned>(i.op) << 16 | static_cast<unsigned>(i.layer + 1);
  }
  static __device__ long long clock() {
    if constexpr (kMode == kProfiled) return clock64();
    return 0;
  }

  const Args& args_;
  Shared<S>& s_;
  const int lane_, warp_;
  unsigned first_tag_ = 0;
  int first_tile_ = 0, first_unit_ = 0;  // of the instruction, in the program
  unsigned long long best_ = 0;
};

template <class S, Mode kMode>
__global__ void __launch_bounds__(kThreads, 1) step(const __grid_constant__ Args args) {
  extern __shared__ __align__(1024) unsigned char memory[];
  Block<S, kMode>(args, *reinterpret_cast<Shared<S>*>(memory)).run();
}

}  // namespace warptune::persistent
