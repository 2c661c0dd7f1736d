#include "harness/verify/input_change.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/core/brief.h"
#include "harness/core/error.h"

namespace warptune {
namespace {

constexpr std::int64_t kMaxListed = std::int64_t{1} << 28;  // elements that the host lists: 1 GB

bool can_change(const TensorSpec& spec) {
  return spec.role != Role::output &&
         (spec.dtype == DType::fp32 || spec.dtype == DType::fp16 || spec.dtype == DType::bf16);
}

void apply(const InputChange& change, std::uint64_t seed, TensorSpec& spec) {
  const auto scale = static_cast<float>(change.scale);
  for (float& x : spec.floats) x *= scale;
  spec.scale *= scale;
  if (!change.value) return;
  const auto count = static_cast<std::size_t>(spec.count());
  if (spec.floats.empty())
    for (std::size_t i = 0; i < count; ++i) spec.floats.push_back(random_value(seed, i, spec.scale));
  for (std::size_t i = 0; i < count; i += static_cast<std::size_t>(change.every))
    spec.floats[i] = static_cast<float>(*change.value);
}

}  // namespace

std::string InputChange::str() const {
  std::string text = tensor;
  if (scale != 1) text += fmt::format(" scale={}", scale);
  if (value) text += fmt::format(" value={} every={}", *value, every);
  return text;
}

void check_inputs(const Op& op, const Problem& problem, const InputChanges& changes) {
  if (changes.empty()) return;
  const std::vector<TensorSpec> specs = op.tensors(problem, 0);
  std::vector<std::string> known;
  for (const TensorSpec& spec : specs)
    if (can_change(spec)) known.push_back(spec.name);
  for (const InputChange& change : changes) {
    const auto spec = std::ranges::find(specs, change.tensor, &TensorSpec::name);
    if (spec == specs.end())
      throw InputError("{} has no tensor '{}'{}", problem.key(), brief(change.tensor),
                       did_you_mean(change.tensor, known, "its inputs are"));
    if (!can_change(*spec))
      throw InputError("'{}' of {} is {}; only inputs of fp32, fp16 or bf16 are changed, here {}",
                       change.tensor, problem.key(),
                       spec->role == Role::output ? "an output" : name_of(spec->dtype), listed(known));
    if (change.value && spec->count() > kMaxListed)
      throw InputError("'{}' of {} has {} elements; 'value' takes tensors of at most {}", change.tensor,
                       problem.key(), spec->count(), kMaxListed);
  }
}

Op with_inputs(const Op& op, const InputChanges& changes) {
  if (changes.empty()) return op;
  Op changed = op;
  changed.tensors = [tensors = op.tensors, changes](const Problem& problem, std::uint64_t seed) {
    std::vector<TensorSpec> specs = tensors(problem, seed);
    for (std::size_t i = 0; i < specs.size(); ++i)
      if (const auto it = std::ranges::find(changes, specs[i].name, &InputChange::tensor);
          it != changes.end())
        apply(*it, tensor_seed(seed, i), specs[i]);
    return specs;
  };
  return changed;
}

}  // namespace warptune
