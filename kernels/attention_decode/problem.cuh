#pragma once
// What a kernel is specialised for: the dims of a problem that a plan fixes, its features among them.
#include "kernels/attention_decode/args.h"
#include "kernels/common/quantize.cuh"

namespace warptune {

/// In the order of the labels of the op's dims.
inline constexpr int kBiasNone = 0, kBiasAlibi = 1, kBiasAdditive = 2;
inline constexpr int kEpilogueNone = 0, kEpilogueSmooth = 1, kEpilogueQuantize = 2;

/// The type number kIndex of a list.
template <int kIndex, class First, class... Rest>
struct TypeAt {
  using Type = typename TypeAt<kIndex - 1, Rest...>::Type;
};
template <class First, class... Rest>
struct TypeAt<0, First, Rest...> {
  using Type = First;
};

template <class T_, int kQHeads_, int kKvHeads_, int kHeadDim_, bool kDsx_ = false, bool kAppend_ = false,
          int kKvDtype = 0, bool kRowScales_ = false, int kPage_ = 0, int kWindow_ = 0, int kBias_ = 0,
          bool kLse_ = false, int kEpilogue_ = 0>
struct DecodeProblem {
  using T = T_;
  using C = typename TypeAt<kKvDtype, T, signed char, fp8>::Type;  // what the caches hold
  using Out = typename TypeAt<kEpilogue_ == kEpilogueQuantize, T, signed char>::Type;
  static constexpr int kQHeads = kQHeads_, kKvHeads = kKvHeads_, kGroup = kQHeads / kKvHeads,
                       kHeadDim = kHeadDim_;
  static constexpr bool kDsx = kDsx_, kAppend = kAppend_, kLse = kLse_;
  static constexpr bool kQuantized = kKvDtype != 0;
  static constexpr bool kRowScales = kRowScales_;  // of quantised caches: a scale per row, not per head
  static constexpr int kPage = kPage_, kWindow = kWindow_, kBias = kBias_, kEpilogue = kEpilogue_;

  /// The first key that counts.
  static __device__ __forceinline__ int first_key(int length) {
    return kWindow == 0 ? 0 : max_of(0, length - kWindow);
  }
};

}  // namespace warptune
