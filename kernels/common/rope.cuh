#pragma once
// RoPE: sine and cosine of the angle of a pair, its elements, and inverse frequencies under dynamic NTK
// scaling.
#include "kernels/common/numeric.cuh"

namespace warptune {

/// Sine and cosine of 0 <= angle <= 1.4e5 to about 2e-7, without the slow path (and local memory) of sincosf:
/// Cody-Waite reduction by pi/2 in three parts, then the polynomials of Cephes for |r| <= pi/4.
__device__ __forceinline__ void sin_cos(float angle, float& sine, float& cosine) {
  const int quarter = __float2int_rn(angle * 0.636619772f);
  const float k = static_cast<float>(quarter);
  float r = fmaf(-k, 1.57079637050628662e+00f, angle);
  r = fmaf(-k, -4.37113882867379e-08f, r);
  r = fmaf(-k, -1.7151245100059e-15f, r);
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

/// The first element of half-split pair `pair` of a head: of the leading kRotaryDim elements, or of those
/// behind them.
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
