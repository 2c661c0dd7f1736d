#pragma once
// Choices of an attention problem, numbered alike on host and device: the order of the labels of the dims
// `score_bias` and `causal`.

namespace warptune {

/// What is added to the scores before the softmax.
enum class ScoreBias { none, alibi, additive };

/// Causal masks: the last query sees all keys (bottom_right), or the first query sees one key (top_left).
enum class CausalMask { none, bottom_right, top_left };

}  // namespace warptune
