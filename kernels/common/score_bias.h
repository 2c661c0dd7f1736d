#pragma once

namespace warptune {

/// What an attention op adds to its scores before the softmax: the order of the labels of the dim
/// `score_bias`.
enum class ScoreBias { none, additive, alibi };

}  // namespace warptune
