#pragma once
// RoPE: sine and cosine of the angle of a pair, its elements, and inverse frequencies under dynamic NTK
// scaling.
#include "kernels/common/numeric.cuh"

namespace warptune {

/// An angle less a multiple of pi/2, at most pi/4 in size; returns the multiple. Up to kNearPositions in
/// fp32, with pi/2 in three parts (Cody and Waite, "Software Manual for the Elementary Functions", 1980).
/// kFar: up to 2^30 in fp64, where the error of pi/2 times the multiple is 4e-8.
template <bool kFar>
__device__ __forceinline__ int reduce_angle(float angle, float& r) {
  if constexpr (kFar) {
    const double wide = angle;
    const int quarter = __double2int_rn(wide * 0.63661977236758134308);
    r = static_cast<float>(fma(-static_cast<double>(quarter), 1.57079632679489661923, wide));
    return quarter;
  } else {
    const int quarter = __float2int_rn(angle * 0.636619772f);
    const float k = static_cast<float>(quarter);
    r = fmaf(-k, 1.57079637050628662e+00f, angle);
    r = fmaf(-k, -4.37113882867379e-08f, r);
    r = fmaf(-k, -1.7151245100059e-15f, r);
    return quarter;
  }
}

/// Sine and cosine of an angle >= 0 to about 2e-7, of a prompt and of decode alike, without the slow path
/// (and local memory) of sincosf: the polynomials of Cephes for |r| <= pi/4.
template <bool kFar>
__device__ __forceinline__ void sin_cos(float angle, float& sine, float& cosine) {
  float r;
  const int quarter = reduce_angle<kFar>(angle, r);
  const float r2 = r * r;
  const float p = fmaf(fmaf(r2, -1.9515295891e-4f, 8.3321608736e-3f), r2, -1.6666654611e-1f);
  const float s = fmaf(p * r2, r, r);
  const float q = fmaf(fmaf(r2, 2.443315711809948e-5f, -1.388731625493765e-3f), r2, 4.166664568298827e-2f);
  const float c = fmaf(q * r2, r2, fmaf(r2, -0.5f, 1.0f));
  const bool swapped = (quarter & 1) != 0;
  sine = swapped ? c : s;
  cosine = swapped ? s : c;
  if (quarter & 2) sine = -sine;
  if ((quarter + 1) & 2) cosine = -cosine;
}

/// Cosine and sine of an angle of at most kNearPositions, each with an error below 2e-6, which is less than
/// the rounding of a 16-bit row. Full turns are subtracted in two parts, as Cody and Waite do.
__device__ __forceinline__ float2 cos_sin_fast(float angle) {
  const float turns = rintf(angle * 0.159154943f);
  const float rest = fmaf(turns, 1.74845553e-7f, fmaf(turns, -6.28318548f, angle));
  return {__cosf(rest), __sinf(rest)};
}

/// Cosine and sine for the rotation of a row of T whose new key another kernel waits for.
template <class T, bool kFar>
__device__ __forceinline__ float2 cos_sin(float angle) {
  if constexpr (kFar || sizeof(T) == 4) {
    float2 turn;
    sin_cos<kFar>(angle, turn.y, turn.x);
    return turn;
  } else {
    return cos_sin_fast(angle);
  }
}

/// The first element of half-split pair `pair` of a head: of the leading kRotaryDim elements, or of those
/// after them.
template <int kHeadDim, int kRotaryDim>
__device__ __forceinline__ int half_split_first(int pair) {
  return kRotaryDim == kHeadDim || pair < kRotaryDim / 2 ? pair : pair + kRotaryDim / 2;
}
/// The distance of its second element from the first.
template <int kHeadDim, int kRotaryDim>
__device__ __forceinline__ int half_split_distance(int pair) {
  return kRotaryDim == kHeadDim || pair < kRotaryDim / 2 ? kRotaryDim / 2 : (kHeadDim - kRotaryDim) / 2;
}

/// Dynamic NTK: log2 of theta for a sequence of `length`; 0 where the sequence fits max_position and theta
/// stays. fp64, since the last bit of a frequency matters at large positions. `args` has theta, factor and
/// max_position.
template <class Args>
__device__ __forceinline__ double ntk_theta_log2(const Args& args, int length, int rotary_dim) {
  if (length <= args.max_position) return 0;
  const double factor = args.factor;
  const double growth = factor * length / args.max_position - (factor - 1);
  return log2(static_cast<double>(args.theta)) + log2(growth) * rotary_dim / (rotary_dim - 2);
}

/// Dynamic NTK: the inverse frequency of a pair for that theta.
__device__ __forceinline__ float ntk_inv_freq(double theta_log2, int pair, int rotary_dim) {
  return static_cast<float>(exp2(theta_log2 * (-2.0 * pair) / rotary_dim));
}

/// Dynamic NTK: the inverse frequency of a pair in a sequence of `length`; `inv_freq` where theta stays.
template <class Args>
__device__ __forceinline__ float ntk_inv_freq(const Args& args, int length, int pair, int rotary_dim,
                                              float inv_freq) {
  const double theta_log2 = ntk_theta_log2(args, length, rotary_dim);
  return theta_log2 == 0 ? inv_freq : ntk_inv_freq(theta_log2, pair, rotary_dim);
}

}  // namespace warptune
