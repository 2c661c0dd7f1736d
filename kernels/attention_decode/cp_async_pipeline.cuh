#pragma once
// How a lane loads its vectors of K and V, warp tile after warp tile: directly to registers, or through a
// cp.async pipeline in shared memory, kStages - 1 tiles ahead. Each lane loads and uses its own vectors, so
// that the pipeline needs no barrier; the vectors of neighboring lanes are adjacent, so that there are no
// bank conflicts.
#include "kernels/common/cp_async.cuh"
#include "kernels/common/vec.cuh"

namespace warptune {

/// A lane's part of a tile in registers: vectors of keys (of kKeyX elements) and of values (16 bytes), and
/// the scales of rows.
template <class C, int kKeyX, int kKeyVectors, int kValueVectors, int kScales>
struct LaneTile {
  Vec<C, kKeyX> keys[kKeyVectors];
  Vec<C, kVec16<C>> values[kValueVectors];
  float scales[max_of(1, kScales)];

  __device__ __forceinline__ void load_key(int i, const C* from) { keys[i] = load_vec_nc<kKeyX>(from); }
  __device__ __forceinline__ void load_value(int i, const C* from) {
    values[i] = load_vec_nc<kVec16<C>>(from);
  }
  __device__ __forceinline__ void load_scale(int i, const float* from) { scales[i] = *from; }
};

/// A lane's part of one stage in shared memory: 16-byte vectors of keys, then of values.
template <class C, int kKeyVectors>
struct LaneStage {
  Vec<C, kVec16<C>>* vectors;  // stride 32: those of the next lane are adjacent
  float* scales;

  __device__ __forceinline__ void load_key(int i, const C* from) { cp_async_16(vectors + i * 32, from); }
  __device__ __forceinline__ void load_value(int i, const C* from) { load_key(kKeyVectors + i, from); }
  __device__ __forceinline__ void load_scale(int i, const float* from) { cp_async_4(scales + i * 32, from); }
};

/// The pipeline of a lane. Dynamic shared memory per warp: kStages * kStageBytes.
template <class C, int kKeyVectors, int kValueVectors, int kScales, int kStages>
struct LanePipeline {
  static constexpr int kStageBytes = 512 * (kKeyVectors + kValueVectors) + 128 * kScales;  // of a warp
  using Stage = LaneStage<C, kKeyVectors>;
  using Tile = LaneTile<C, kVec16<C>, kKeyVectors, kValueVectors, kScales>;

  unsigned char* buffer;  // of this lane
  int next = 0;           // stage that is consumed next

  __device__ __forceinline__ LanePipeline() {
    extern __shared__ __align__(16) unsigned char shared[];
    buffer = shared + threadIdx.x / 32 * (kStages * kStageBytes) + threadIdx.x % 32 * 16;
  }
  /// The stage that is `ahead` tiles after the next one.
  __device__ __forceinline__ Stage stage(int ahead) const {
    const int at = next + ahead < kStages ? next + ahead : next + ahead - kStages, lane = threadIdx.x % 32;
    unsigned char* vectors = buffer + at * kStageBytes;
    return {reinterpret_cast<Vec<C, kVec16<C>>*>(vectors),
            reinterpret_cast<float*>(vectors + 512 * (kKeyVectors + kValueVectors) - lane * 12)};
  }
  /// Waits until at most kStages - 1 tiles are outstanding and returns the next tile.
  __device__ __forceinline__ Tile consume() {
    cp_async_wait<kStages - 1>();
    const Stage from = stage(0);
    Tile tile;
#pragma unroll
    for (int i = 0; i < kKeyVectors; ++i) tile.keys[i] = from.vectors[i * 32];
#pragma unroll
    for (int i = 0; i < kValueVectors; ++i) tile.values[i] = from.vectors[(kKeyVectors + i) * 32];
#pragma unroll
    for (int i = 0; i < kScales; ++i) tile.scales[i] = from.scales[i * 32];
    next = next + 1 < kStages ? next + 1 : 0;
    return tile;
  }
};

}  // namespace warptune
