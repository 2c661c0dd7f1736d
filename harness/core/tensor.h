#pragma once
// The tensors of an op: the harness allocates, fills, rotates and compares them, with guard bands around.
#include <cstdint>
#include <functional>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/core/dtype.h"
#include "harness/core/random.h"

namespace warptune {

enum class Role { input, output, inout };
/// Where an argument is when the op runs in a model: weights and KV cold, activations hot (for decode).
enum class CacheState { cold, hot };

/// Reads elements [first, first + count) of an output as a kernel has written it.
using ReadOutput =
    std::function<std::vector<double>(std::string_view tensor, std::int64_t first, std::int64_t count)>;

struct TensorSpec {
  std::string name;
  DType dtype = DType::fp32;
  std::vector<std::int64_t> shape;
  Role role = Role::input;
  CacheState cache = CacheState::cold;
  float scale = 1.0f;  // random values are uniform in [-scale, scale)
  std::vector<std::int32_t>
      values;  // int32 tensors with given contents (lengths, ids); empty: random or output
  std::vector<float> floats = {};  // the same for float tensors (tables), rounded to their dtype
  /// The first dim is the rank: a reference sees the values of all ranks, a launch gets those of its own.
  bool per_rank = false;
  bool sparse = false;  // an output that the op writes only in part: other elements keep the poison
  /// All elements of an output that is defined by earlier outputs as they were written and rounded (the index
  /// of the largest). The reference does not set it.
  std::function<std::vector<double>(const ReadOutput&)> derive = {};

  std::int64_t count() const {
    return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
  }
  std::int64_t bytes() const { return count() * static_cast<std::int64_t>(size_of(dtype)); }
};

/// One input as the reference sees it: element i as double, computed on demand, never stored.
class Values {
 public:
  Values(const TensorSpec& spec, std::uint64_t seed) : spec_(&spec), seed_(seed) {}
  double operator[](std::int64_t i) const {
    if (!spec_->values.empty()) return spec_->values[i];
    if (!spec_->floats.empty()) return round_to(spec_->dtype, spec_->floats[i]);
    return round_to(spec_->dtype, random_value(seed_, static_cast<std::uint64_t>(i), spec_->scale));
  }

 private:
  const TensorSpec* spec_;
  std::uint64_t seed_;
};

/// The seed of tensor number `index` of a problem.
constexpr std::uint64_t tensor_seed(std::uint64_t seed, std::size_t index) {
  return seed * 0x9e3779b97f4a7c15ull + index + 1;
}

/// The inputs (and initial contents of inouts) of a problem, by name.
class Inputs {
 public:
  Inputs(std::span<const TensorSpec> specs, std::uint64_t seed) : specs_(specs), seed_(seed) {}
  /// Throws std::out_of_range for a name the op does not have.
  Values operator[](std::string_view name) const;

 private:
  std::span<const TensorSpec> specs_;
  std::uint64_t seed_;
};

/// Collects the results of a reference: runs of consecutive elements of named outputs.
class Expected {
 public:
  struct Run {
    std::string tensor;
    std::int64_t first;
    std::vector<double> values;
    /// Also accepted besides values[0], where more than one answer is right (a sampled id on the edge of two
    /// intervals). The run then has one element.
    std::vector<double> also;
  };
  void put(std::string_view tensor, std::int64_t first, std::vector<double> values,
           std::vector<double> also = {});
  const std::vector<Run>& runs() const { return runs_; }

 private:
  std::vector<Run> runs_;
};

}  // namespace warptune
