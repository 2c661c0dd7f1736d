#pragma once
// How a lane gets its pieces of K and V, strip after strip: straight into registers, or through a ring of
// kStages strips in shared memory that cp.async fills kStages - 1 strips ahead. The lane that asks for a
// piece is the lane that takes it, so that rings need no barrier, and lanes lie side by side, so that they
// meet no bank conflict.
#include "kernels/common/cp_async.cuh"
#include "kernels/common/vec.cuh"

namespace warptune {

/// What a lane takes of a strip: 16-byte pieces and the scales of rows.
template <class C, int kPieces, int kScales>
struct LaneStrip {
  Vec<C, kVec16<C>> pieces[kPieces];
  float scales[max_of(1, kScales)];

  __device__ __forceinline__ void piece(int i, const C* from) { pieces[i] = load_vec_nc<kVec16<C>>(from); }
  __device__ __forceinline__ void scale(int i, const float* from) { scales[i] = *from; }
};

/// One place of a lane's ring.
template <class C>
struct LaneSlot {
  Vec<C, kVec16<C>>* pieces;  // of this lane; those of the next lane follow
  float* scales;

  __device__ __forceinline__ void piece(int i, const C* from) { cp_async_16(pieces + i * 32, from); }
  __device__ __forceinline__ void scale(int i, const float* from) { cp_async_4(scales + i * 32, from); }
};

/// The rings of a block's lanes: kStages * (512 * kPieces + 128 * kScales) bytes of dynamic shared memory per
/// warp.
template <class C, int kPieces, int kScales, int kStages>
struct LaneRing {
  static constexpr int kSlot = 512 * kPieces + 128 * kScales;  // bytes, of a warp

  unsigned char* mine;
  int next = 0;  // slot to be taken

  __device__ __forceinline__ LaneRing() {
    extern __shared__ __align__(16) unsigned char shared[];
    mine = shared + threadIdx.x / 32 * (kStages * kSlot) + threadIdx.x % 32 * 16;
  }
  /// The slot that is `ahead` strips behind the next one.
  __device__ __forceinline__ LaneSlot<C> slot(int ahead) const {
    const int at = next + ahead < kStages ? next + ahead : next + ahead - kStages, lane = threadIdx.x % 32;
    unsigned char* pieces = mine + at * kSlot;
    return {reinterpret_cast<Vec<C, kVec16<C>>*>(pieces),
            reinterpret_cast<float*>(pieces + 512 * kPieces - lane * 12)};
  }
  /// The next strip, when all but kStages - 1 of what was asked for is here.
  __device__ __forceinline__ LaneStrip<C, kPieces, kScales> take() {
    cp_async_wait<kStages - 1>();
    const LaneSlot<C> from = slot(0);
    LaneStrip<C, kPieces, kScales> strip;
#pragma unroll
    for (int i = 0; i < kPieces; ++i) strip.pieces[i] = from.pieces[i * 32];
#pragma unroll
    for (int i = 0; i < kScales; ++i) strip.scales[i] = from.scales[i * 32];
    next = next + 1 < kStages ? next + 1 : 0;
    return strip;
  }
};

}  // namespace warptune
