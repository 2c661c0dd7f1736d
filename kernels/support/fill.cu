// Random inputs, and checks of memory: count of elements not written, checksum of regions.
// fill_random: an input is a function of (seed, index), bit for bit that of harness/core/random.h.
// count_poisoned: elements that still hold the poison, or are NaN.
// checksum: a sum that every change of a region changes.
#include "kernels/common/quantize.cuh"
#include "kernels/support/args.h"

namespace warptune {

__device__ __forceinline__ unsigned mix(unsigned h) {
  h ^= h >> 16;
  h *= 0x85ebca6bu;
  h ^= h >> 13;
  h *= 0xc2b2ae35u;
  return h ^ (h >> 16);
}

template <class T>
__global__ void fill_random(FillArgs args) {
  const long long stride = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < args.count;
       i += stride) {
    const long long index =
        args.first + (args.width == 0 ? i : i / args.width * args.stride + i % args.width);
    const unsigned low = static_cast<unsigned>(index), high = static_cast<unsigned>(index >> 32);
    const unsigned h = mix(low + static_cast<unsigned>(args.seed) * 0x9e3779b9u);
    const unsigned bits = mix(h ^ (high * 0x7feb352du) ^ static_cast<unsigned>(args.seed >> 32));
    const float x = static_cast<float>(static_cast<int>(bits >> 8) - (1 << 23)) * 0x1p-23f;
    if constexpr (is_same<T, int> || is_same<T, long long> || is_same<T, double>)
      static_cast<T*>(args.data)[i] = static_cast<T>(__fmul_rn(x, args.scale));
    else
      static_cast<T*>(args.data)[i] = from_float<T>(__fmul_rn(x, args.scale));
  }
}

template <class T>
__global__ void count_poisoned(CountArgs args) {
  unsigned n = 0;
  const long long stride = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < args.count;
       i += stride) {
    const T x = static_cast<const T*>(args.data)[i];
    if constexpr (is_same<T, int> || is_same<T, long long>) {
      n += x == -1;
    } else if constexpr (is_same<T, signed char>) {
      n += x == -128;
    } else if constexpr (is_same<T, double>) {
      n += x != x;
    } else {
      const float f = to_float(x);
      n += f != f;
    }
  }
  n = __reduce_add_sync(0xffffffffu, n);
  if (n && threadIdx.x % 32 == 0) atomicAdd(args.found, static_cast<unsigned long long>(n));
}

/// Hash of a word and its index (the finalizer of SplitMix64, Steele, Lea and Flood, 2014).
__device__ __forceinline__ unsigned long long hash_word(unsigned long long word, unsigned long long index) {
  unsigned long long z = word + index * 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

/// Word i of a region that may begin at any byte, as a guard band does.
__device__ __forceinline__ unsigned long long word_of_bytes(const unsigned char* bytes, long long i) {
  unsigned long long word = 0;
  for (int b = 0; b < 8; ++b) word |= static_cast<unsigned long long>(bytes[8 * i + b]) << (8 * b);
  return word;
}

__global__ void checksum(ChecksumArgs args) {
  const ChecksumRegion region = args.regions[blockIdx.y];
  const unsigned long long* words = static_cast<const unsigned long long*>(region.data);
  const unsigned char* bytes = static_cast<const unsigned char*>(region.data);
  const bool is_aligned = reinterpret_cast<unsigned long long>(region.data) % 8 == 0;
  const long long count = region.bytes / 8, stride = static_cast<long long>(gridDim.x) * blockDim.x;
  const long long thread = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  unsigned long long sum = 0;
  if (is_aligned)
    for (long long i = thread; i < count; i += stride) sum += hash_word(words[i], i);
  else
    for (long long i = thread; i < count; i += stride) sum += hash_word(word_of_bytes(bytes, i), i);
  if (const long long i = 8 * count + thread; i < region.bytes) sum += hash_word(bytes[i], ~i);
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(0xffffffffu, sum, offset);
  if (threadIdx.x % 32 == 0) atomicAdd(args.sums + blockIdx.y, sum);
}

}  // namespace warptune
