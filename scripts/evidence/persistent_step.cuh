#pragma once
// The decode step of a LLaMA as one persistent kernel (sm_90): batch 1, bf16, head_dim 64.
// Grid: one block per SM, all resident. Every block runs a program: a list of instructions, each a range of
//   units of one op of one layer. A unit is 8 output rows, or one split of a KV head in attention. A unit is
//   cut into tiles of 8 KB: 8 rows x 512 weights, or 32 keys and values.
// Roles: a producer warp loads the tiles of the whole program into a kStages-deep pipeline, one TMA box each.
//   It depends on no other block, so that it loads ahead of the ops by as many stages as are free, and
//   prefetches further tiles into the L2. kConsumers consumer warps compute; a stage belongs to one of them.
// Compute: m16n8k16 with the weights as B (8 rows) and x as A (row 0 is the token). A lane loads 16 bytes of
//   a weight row, which are b0 and b1 of two mma: any order of k is right if x has the same.
// Sync: full and empty mbarrier per stage. Between blocks no barrier and no fence: outputs travel as
//   flag-in-data packets of 32 bits (bf16 value, 16-bit tag of step and layer), and the consumers of an op
//   poll for its inputs. Stores of layer l + 1 cannot overtake loads of layer l, since every block computes
//   rows of every op that all other blocks wait for.
// Norm: x * weight is the operand; the factor 1 / rms, known a barrier later, multiplies the outputs.
// Source: Hazy Research, "Look Ma, No Bubbles" (a megakernel for Llama-1B); the LL protocol of NCCL.
#include "kernels/common/mma.cuh"
#include "kernels/swiglu/silu.cuh"
#include "scripts/evidence/persistent_step_inputs.cuh"
#include "scripts/evidence/persistent_step_producer.cuh"

namespace warptune::persistent {

template <class S, Mode kMode>
class Block {
 public:
  __device__ Block(const Args& args, Shared<S>& shared)
      : args_(args), s_(shared), lane_(threadIdx.x % 32), warp_(threadIdx.x / 32), inputs_(args, shared) {}

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
    inputs_.begin();
    mbarrier_init_fence();
    __syncthreads();
    if (warp_ >= kConsumers) {
      if (lane_ == 0) Producer<S>(args_, s_).run();
    } else {
      consume();
      finish();
    }
  }

 private:
  __device__ void consume() {
    for (const Instruction* i = s_.program; i->op != kEnd; ++i) {
      const long long start = clock();
      const bf16* x = nullptr;
      float scale = 1;
      switch (i->op) {
        case kQkv:
          x = inputs_.gather_normalized(*i, 0, scale);
          break;
        case kAttention:
          inputs_.gather_heads(*i);
          break;
        case kO:
          x = inputs_.gather_attention(*i);
          break;
        case kGateUp:
          x = inputs_.gather_normalized(*i, 1, scale);
          break;
        case kDown:
          x = inputs_.gather_inner(*i);
          break;
        default:
          x = inputs_.gather_normalized(*i, 0, scale);
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

  /// One tile of a GEMV: out[r] = sum over k of stage[r][k] * x[k]. The tile is [8 chunks][8 rows][64],
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
    const unsigned tag = inputs_.tag_of(i.layer);
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
    const unsigned tag = inputs_.tag_of(i.layer);
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

  static __device__ long long clock() {
    if constexpr (kMode == kProfiled) return clock64();
    return 0;
  }

  const Args& args_;
  Shared<S>& s_;
  const int lane_, warp_;
  Inputs<S, kMode> inputs_;
  int first_tile_ = 0, first_unit_ = 0;  // of the instruction, in the program
  unsigned long long best_ = 0;
};

template <class S, Mode kMode>
__global__ void __launch_bounds__(kThreads, 1) step(const __grid_constant__ Args args) {
  extern __shared__ __align__(1024) unsigned char memory[];
  Block<S, kMode>(args, *reinterpret_cast<Shared<S>*>(memory)).run();
}

}  // namespace warptune::persistent
