#pragma once
// Which configuration to take for a problem that was not tuned, and what it should take there.
#include <functional>
#include <optional>

#include "core/variant.h"
#include "results/wisdom.h"

namespace warptune {

struct Prediction {
  const Variant* variant = nullptr;
  Config config;
  double time_us = 0;
};

/// Whether the times of a variant still hold here.
using Holds = std::function<bool(const Winner&, const VariantTimes&)>;

/// The configuration that should be the fastest, of all that were timed on problems of the same op, dtype and
/// features and that keep their constraints on this one; nothing where too little is known. The times of this
/// very problem do not count.
///
/// The times of a kernel (a variant with all its parameters but the number of splits) on other problems are
/// fitted by what they should be made of: a constant, its whole work, the work of the busiest multiprocessor
/// (by its blocks, and by the rounds of as many as run at a time), those rounds, each as many times as a warp
/// goes to memory (a few), and the merging of splits, at all and by their number. No part is negative (Lawson
/// and Hanson, "Solving Least Squares Problems", 1974), and near problems count more (Cleveland, "Locally
/// weighted regression", 1979): a little in one fit, much in another, between which the time lies. Kernels
/// that differ only in `ahead` count as farther, and so do other features where bytes decide. A configuration
/// takes no less than on a problem that is nowhere larger, and no more than on one that is nowhere smaller.
/// The error of a fit counts against what it predicts. Where nothing near was timed nothing is predicted;
/// kernels that few problems have timed are not chosen.
std::optional<Prediction> predict(const Wisdom& wisdom, const Problem& problem, const DeviceFacts& facts,
                                  const Holds& holds);

}  // namespace warptune
