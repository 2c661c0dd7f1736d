#pragma once
// How a matrix of weights is quantized: the dims of op linear that say so.
#include "kernels/linear/packed_weights.h"

namespace warptune {

struct WeightFormat {
  int weights = kWeightsSame;  // a value of dim `weights`
  int group = 0;               // columns of a row that share a scale; 0: the whole row
  bool zeros = false;          // groups have zero points
  bool act_order = false;      // column i of the matrix multiplies x[order[i]]
  bool quantized() const { return weights != kWeightsSame; }
  bool operator==(const WeightFormat&) const = default;
};

}  // namespace warptune
