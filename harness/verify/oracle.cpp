#include "harness/verify/oracle.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <numeric>
#include <random>
#include <stdexcept>
#include <thread>

#include "harness/core/parallel.h"
#include "harness/verify/reference_kernel.h"

namespace warptune {
namespace {

std::vector<std::int64_t> choose_units(std::int64_t units, std::int64_t max_units, std::uint64_t seed) {
  std::vector<std::int64_t> chosen;
  if (units <= max_units) {
    chosen.resize(static_cast<std::size_t>(units));
    std::iota(chosen.begin(), chosen.end(), 0);
    return chosen;
  }
  std::mt19937_64 random(seed);
  chosen = {0, units - 1};
  while (static_cast<std::int64_t>(chosen.size()) < max_units) {
    chosen.push_back(static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(units)));
  }
  std::ranges::sort(chosen);
  const auto [first, last] = std::ranges::unique(chosen);
  chosen.erase(first, last);
  return chosen;
}

/// Reads `runs` runs of elements of one tensor. It downloads the whole tensor once if that is faster than one
/// copy per run (about 10 us, the time of 80 kB).
class Reader {
 public:
  Reader(Device& device, const TensorSpec& spec, const void* address, std::int64_t runs)
      : device_(device), spec_(spec), address_(static_cast<const std::byte*>(address)) {
    if (spec.bytes() <= 80'000 * runs) {
      tensor_.resize(static_cast<std::size_t>(spec.bytes()));
      device.download(tensor_.data(), address, tensor_.size());
    }
  }
  std::vector<double> read(std::int64_t first, std::size_t n) {
    const std::size_t size = size_of(spec_.dtype), offset = static_cast<std::size_t>(first) * size;
    const std::byte* from = tensor_.data() + offset;
    if (tensor_.empty()) {
      run_.resize(n * size);
      device_.download(run_.data(), address_ + offset, run_.size());
      from = run_.data();
    }
    std::vector<double> values(n);
    for (std::size_t i = 0; i < n; ++i) values[i] = load(spec_.dtype, from, static_cast<std::int64_t>(i));
    return values;
  }

 private:
  Device& device_;
  const TensorSpec& spec_;
  const std::byte* address_;
  std::vector<std::byte> tensor_, run_;
};

/// Throws std::logic_error for a reference that names a tensor that is no output, or elements beyond its end,
/// or, of all units, not every element of an output: such a check would pass whatever a kernel writes.
void expect_whole(const std::vector<TensorSpec>& specs, const std::vector<Expected::Run>& runs,
                  const std::string& op, bool all_units) {
  std::map<std::string, std::int64_t> expected;  // elements
  for (const Expected::Run& run : runs) {
    const auto spec = std::ranges::find(specs, run.tensor, &TensorSpec::name);
    const auto count = static_cast<std::int64_t>(run.values.size());
    if (spec == specs.end() || spec->role == Role::input || run.first < 0 ||
        run.first + count > spec->count())
      throw std::logic_error(fmt::format("the reference of {} sets '{}'[{}..{}), which is no output of it",
                                         op, run.tensor, run.first, run.first + count));
    expected[run.tensor] += count;
  }
  for (const TensorSpec& spec : specs)
    if (all_units && spec.role == Role::output && !spec.sparse && !spec.derive &&
        expected[spec.name] < spec.count())
      throw std::logic_error(fmt::format("the reference of {} sets {} of the {} elements of '{}'", op,
                                         expected[spec.name], spec.count(), spec.name));
}

/// Whether NaN may be a right result: it is expected in a unit that was computed, or inputs hold NaN or
/// infinity, so that it may be in others.
bool may_be_nan(std::span<const TensorSpec> specs, const Expected& expected) {
  const auto is_special = [](float x) { return std::isnan(x) || x == INFINITY; };
  const auto is_nan = [](double x) { return std::isnan(x); };
  return std::ranges::any_of(
             specs, [&](const TensorSpec& s) { return std::ranges::any_of(s.floats, is_special); }) ||
         std::ranges::any_of(expected.runs(),
                             [&](const auto& run) { return std::ranges::any_of(run.values, is_nan); });
}

/// The rounding error of a result below the normal numbers of a dtype, where no relative bound holds; GPUs
/// flush those of fp32 to zero.
double subnormal_error(DType dtype, double want) {
  const bool is_fp16 = dtype == DType::fp16;
  if (!is_fp16 && dtype != DType::fp32 && dtype != DType::bf16) return 0;
  const double normal = is_fp16 ? 0x1p-14 : 0x1p-126;
  if (std::abs(want) >= normal) return 0;
  return is_fp16 ? 0x1p-25 : normal;
}

/// How many elements of an integer output have the value of the poison in the reference: a kernel that is
/// right writes it there.
std::int64_t expected_poison(const TensorSpec& spec, const std::vector<Expected::Run>& runs) {
  if (is_float(spec.dtype)) return 0;
  std::int64_t count = 0;
  for (const Expected::Run& run : runs)
    if (run.tensor == spec.name)
      count += std::ranges::count_if(
          run.values, [&](double want) { return std::nearbyint(want) == poison_value(spec.dtype); });
  return count;
}

struct Sums {
  double error2 = 0, ref2 = 0, max_error = 0, max_ref = 0;
  std::string worst;  // where max_error is
};

}  // namespace

Oracle::Oracle(const Op& op, const Problem& problem, std::uint64_t seed, double budget)
    : seed_(seed), tolerance_(op.tolerance(problem)), specs_(op.tensors(problem, seed)) {
  run_reference(op, problem, budget);
}

Oracle::Oracle(Device& device, const Op& op, const Problem& problem, std::uint64_t seed)
    : seed_(seed), tolerance_(op.tolerance(problem)), specs_(op.tensors(problem, seed)) {
  const auto* kernel = op.reference.target<KernelReference>();
  if (kernel && device.facts().backend == Backend::cuda) {
    run_reference_kernel(device, *kernel, problem, specs_, seed_, expected_);
    expect_whole(specs_, expected_.runs(), op.name, true);
    nan_is_possible_ = may_be_nan(specs_, expected_);
  } else {
    run_reference(op, problem, kBudget);
  }
}

void Oracle::run_reference(const Op& op, const Problem& problem, double budget) {
  const std::int64_t units = op.units(problem);
  const double count = static_cast<double>(std::max<std::int64_t>(units, 1));
  double elements = 0;
  for (const TensorSpec& spec : specs_)
    if (spec.role != Role::input) elements += static_cast<double>(spec.count());
  // The numbers of units that the budget allows to compute, and to compare (20 evaluations per element).
  const double computable = budget / std::max(1.0, op.cost(problem).flops / count);
  const double comparable = std::max(64.0, budget / 20 / std::max(1.0, elements / count));
  const auto max_units = static_cast<std::int64_t>(std::clamp(std::min(computable, comparable), 4.0, 4096.0));
  const auto chosen = choose_units(units, max_units, seed_);
  const Inputs inputs(specs_, seed_);
  std::vector<Expected> parts(chosen.size());
  const int threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  std::exception_ptr failure;
  std::mutex mutex;
  parallel_for(static_cast<std::int64_t>(chosen.size()), threads, [&](std::int64_t i) {
    try {
      op.reference(problem, inputs, chosen[static_cast<std::size_t>(i)], parts[static_cast<std::size_t>(i)]);
    } catch (...) {
      const std::lock_guard lock(mutex);
      failure = std::current_exception();
    }
  });
  if (failure) std::rethrow_exception(failure);
  for (const Expected& part : parts)
    for (const auto& run : part.runs()) expected_.put(run.tensor, run.first, run.values, run.also);
  expect_whole(specs_, expected_.runs(), op.name, static_cast<std::int64_t>(chosen.size()) == units);
  nan_is_possible_ = may_be_nan(specs_, expected_);
}

Verdict Oracle::compare(const TensorSet& set) const {
  Device& device = set.device();
  Verdict verdict;
  std::map<std::string, Sums> sums;
  const ReadOutput read_output = [&](std::string_view name, std::int64_t first, std::int64_t count) {
    const auto t =
        static_cast<std::size_t>(std::ranges::find(specs_, name, &TensorSpec::name) - specs_.begin());
    return Reader(device, specs_.at(t), set.addresses()[t], 0).read(first, static_cast<std::size_t>(count));
  };
  for (std::size_t t = 0; t < specs_.size(); ++t) {
    const TensorSpec& spec = specs_[t];
    if (spec.role == Role::input) continue;
    Expected derived;
    if (spec.role == Role::output && !spec.sparse && !(nan_is_possible_ && is_float(spec.dtype))) {
      const auto n = device.count_poisoned(set.addresses()[t], spec.dtype, spec.count());
      if (n > expected_poison(spec, expected_.runs())) {
        verdict.detail =
            fmt::format("{} of {} elements of '{}' were not written or are NaN", n, spec.count(), spec.name);
        return verdict;
      }
    }
    if (spec.derive) derived.put(spec.name, 0, spec.derive(read_output));
    const std::vector<Expected::Run>& runs = spec.derive ? derived.runs() : expected_.runs();
    Reader reader(device, spec, set.addresses()[t],
                  std::ranges::count(runs, spec.name, &Expected::Run::tensor));
    Sums& s = sums[spec.name];
    for (const auto& run : runs) {
      if (run.tensor != spec.name) continue;
      const std::vector<double> got = reader.read(run.first, run.values.size());
      for (std::size_t i = 0; i < got.size(); ++i) {
        const double want = run.values[i];
        const auto where = [&] {
          return fmt::format("'{}'[{}] is {}, should be {}", spec.name,
                             run.first + static_cast<std::int64_t>(i), got[i], want);
        };
        if (is_exact(spec.dtype)) {
          if (got[i] != want && std::ranges::find(run.also, got[i]) == run.also.end()) {
            verdict.max_abs_err = std::abs(got[i] - want);
            verdict.detail = where();
            return verdict;
          }
          continue;
        }
        if (std::isnan(got[i]) || !std::isfinite(want)) {
          if (got[i] == want || (std::isnan(got[i]) && std::isnan(want))) continue;
          verdict.max_abs_err = verdict.rel_l2_err = INFINITY;
          verdict.detail = where();
          return verdict;
        }
        const double rounding = rounding_error(spec.dtype, want) + subnormal_error(spec.dtype, want);
        const double error = std::max(0.0, std::abs(got[i] - want) - rounding);
        s.error2 += error * error;
        s.ref2 += want * want;
        s.max_ref = std::max(s.max_ref, std::abs(want));
        if (error > s.max_error) {
          s.max_error = error;
          s.worst = where();
        }
      }
    }
  }
  verdict.ok = true;
  for (const auto& [name, s] : sums) {
    const double rel = s.error2 == 0 ? 0 : std::sqrt(s.error2 / std::max(s.ref2, 1e-300));
    verdict.rel_l2_err = std::max(verdict.rel_l2_err, rel);
    verdict.max_abs_err = std::max(verdict.max_abs_err, s.max_error);
    if (rel <= tolerance_.rel_l2 && s.max_error <= tolerance_.max_rel * s.max_ref) continue;
    verdict.ok = false;
    verdict.detail = s.worst;
  }
  if (const std::string name = set.broken_guard_band(); verdict.ok && !name.empty()) {
    verdict.ok = false;
    verdict.detail = fmt::format("memory outside '{}' was written", name);
  }
  return verdict;
}

}  // namespace warptune
