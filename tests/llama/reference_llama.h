#pragma once
// LLaMA in fp64, one sequence, all tokens at once: the reference for runs with a window.
// Source: Touvron et al., "LLaMA", 2023; window as in Jiang et al., "Mistral 7B", 2023.
#include <algorithm>
#include <cmath>
#include <vector>

#include "harness/core/rope.h"
#include "harness/llama/weights.h"

namespace warptune::testing {

using Row = std::vector<double>;

/// weight [out, in] . x plus the bias, if any; weights are fp32 on the host, and not quantized.
inline Row project(const Buffer& weight, const Buffer& bias, const Row& x) {
  const std::size_t rows = weight.bytes() / sizeof(float) / x.size();
  Row y(rows);
  for (std::size_t i = 0; i < rows; ++i) {
    if (bias.data()) y[i] = bias.as<float>()[i];
    for (std::size_t j = 0; j < x.size(); ++j)
      y[i] += static_cast<double>(weight.as<float>()[i * x.size() + j]) * x[j];
  }
  return y;
}

inline Row rms_norm(const Buffer& weight, const Row& x, double eps) {
  double sum = 0;
  for (const double value : x) sum += value * value;
  const double scale = 1 / std::sqrt(sum / static_cast<double>(x.size()) + eps);
  Row y;
  for (std::size_t i = 0; i < x.size(); ++i)
    y.push_back(x[i] * scale * static_cast<double>(weight.as<float>()[i]));
  return y;
}

/// Half-split rotation of the first `heads` heads of a row.
inline void rotate(Row& row, int heads, int head_dim, const std::vector<float>& inv_freq, int position) {
  const auto half = static_cast<std::size_t>(head_dim / 2);
  for (std::size_t head = 0; head < static_cast<std::size_t>(heads); ++head)
    for (std::size_t i = 0; i < half; ++i) {
      double &low = row[2 * half * head + i], &high = row[2 * half * head + half + i];
      const double angle = position * static_cast<double>(inv_freq[i]), c = std::cos(angle),
                   s = std::sin(angle), turned = low * c - high * s;
      high = high * c + low * s;
      low = turned;
    }
}

/// For each head: softmax(q . K * scale) . V of token t over the last `window` (0: all) of rows 0 to t of the
/// fused qkv.
inline Row attend(const ModelConfig& c, const std::vector<Row>& qkv, int t, int window) {
  const auto d = static_cast<std::size_t>(c.head_dim);
  const int first = window == 0 ? 0 : std::max(0, t + 1 - window);
  Row out(static_cast<std::size_t>(c.q_width()));
  for (int head = 0; head < c.q_heads; ++head) {
    const int kv_head = head / (c.q_heads / c.kv_heads);
    const std::size_t q = static_cast<std::size_t>(head) * d,
                      k = static_cast<std::size_t>(c.q_heads + kv_head) * d,
                      v = static_cast<std::size_t>(c.q_heads + c.kv_heads + kv_head) * d;
    Row weights;
    for (int key = first; key <= t; ++key) {
      double score = 0;
      for (std::size_t i = 0; i < d; ++i)
        score += qkv[static_cast<std::size_t>(t)][q + i] * qkv[static_cast<std::size_t>(key)][k + i];
      weights.push_back(score / std::sqrt(static_cast<double>(d)));
    }
    const double most = *std::ranges::max_element(weights);
    double sum = 0;
    for (double& weight : weights) sum += weight = std::exp(weight - most);
    for (int key = first; key <= t; ++key)
      for (std::size_t i = 0; i < d; ++i)
        out[q + i] +=
            weights[static_cast<std::size_t>(key - first)] / sum * qkv[static_cast<std::size_t>(key)][v + i];
  }
  return out;
}

/// The logits of every token.
inline std::vector<Row> reference_logits(const ModelConfig& c, const Weights& w, const std::vector<int>& ids,
                                         int window) {
  const auto hidden = static_cast<std::size_t>(c.hidden), inner = static_cast<std::size_t>(c.intermediate);
  const std::vector<float> inv_freq = rope_inv_freq(c.head_dim, c.rope);
  std::vector<Row> xs;
  for (const int id : ids) {
    const float* row = w.embedding.as<float>() + static_cast<std::size_t>(id) * hidden;
    xs.emplace_back(row, row + hidden);
  }
  const auto add = [](Row& x, const Row& y) {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += y[i];
  };
  for (const LayerWeights& l : w.layers) {
    std::vector<Row> qkv;
    for (std::size_t t = 0; t < xs.size(); ++t) {
      qkv.push_back(project(l.qkv.weight, l.qkv_bias, rms_norm(l.input_norm, xs[t], c.rms_eps)));
      rotate(qkv[t], c.q_heads + c.kv_heads, c.head_dim, inv_freq, static_cast<int>(t));
    }
    for (std::size_t t = 0; t < xs.size(); ++t) {
      add(xs[t], project(l.o.weight, l.o_bias, attend(c, qkv, static_cast<int>(t), window)));
      const Row gate_up = project(l.gate_up.weight, {}, rms_norm(l.attention_norm, xs[t], c.rms_eps));
      Row y(inner);
      for (std::size_t i = 0; i < inner; ++i)
        y[i] = gate_up[i] / (1 + std::exp(-gate_up[i])) * gate_up[inner + i];
      add(xs[t], project(l.down.weight, {}, y));
    }
  }
  const Buffer& head = w.lm_head.weight.data() ? w.lm_head.weight : w.embedding;
  for (Row& x : xs) x = project(head, {}, rms_norm(w.final_norm, x, c.rms_eps));
  return xs;
}

}  // namespace warptune::testing
