#include "harness/verify/oracle.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
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

/// A sentence about an element that has one of several right values; empty where it does.
std::string wrong_choice(const Expected::Run& run, double got) {
  if (got == run.values[0] || std::ranges::find(run.also, got) != run.also.end()) return {};
  return fmt::format("'{}'[{}] is {}, should be {}", run.tensor, run.first, got, run.values[0]);
}

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

/// The expected elements of output t, which stay on the device.
const ExpectedElements& Oracle::elements(Device& device, std::size_t t) const {
  if (there_device_ != &device) there_.clear();
  there_device_ = &device;
  const auto known = there_.find(t);
  return known != there_.end()
             ? known->second
             : there_.try_emplace(t, device, specs_[t], std::span(expected_.runs())).first->second;
}

Verdict Oracle::compare(const TensorSet& set) const {
  Device& device = set.device();
  Verdict verdict{.ok = true};
  std::map<std::string, std::string> too_far;  // by tensor, the sentence about its worst element
  const auto reader = [&](std::size_t t) { return Reader(device, specs_[t], set.addresses()[t], 0); };
  const ReadOutput read_output = [&](std::string_view name, std::int64_t first, std::int64_t count) {
    const auto t = std::ranges::find(specs_, name, &TensorSpec::name) - specs_.begin();
    return reader(static_cast<std::size_t>(t)).read(first, static_cast<std::size_t>(count));
  };
  const auto wrong = [&](double error, std::string sentence) {
    verdict = {
        .max_abs_err = error, .rel_l2_err = std::isfinite(error) ? 0 : error, .detail = std::move(sentence)};
    return verdict;
  };
  for (std::size_t t = 0; t < specs_.size(); ++t) {
    const TensorSpec& spec = specs_[t];
    if (spec.role == Role::input) continue;
    const void* const address = set.addresses()[t];
    if (spec.role == Role::output && !spec.sparse && !(nan_is_possible_ && is_float(spec.dtype))) {
      const auto n = device.count_poisoned(address, spec.dtype, spec.count());
      if (n > expected_poison(spec, expected_.runs()))
        return wrong(0, fmt::format("{} of {} elements of '{}' were not written or are NaN", n, spec.count(),
                                    spec.name));
    }
    Expected derived;
    if (spec.derive) derived.put(spec.name, 0, spec.derive(read_output));
    std::optional<ExpectedElements> now;
    if (spec.derive) now.emplace(device, spec, derived.runs());
    const ExpectedElements& expected = now ? *now : elements(device, t);
    const ElementErrors errors = expected.compare(address);
    if (!expected.is_intact()) {
      there_.erase(t);
      return wrong(0, fmt::format("the expected values of '{}' were written", spec.name));
    }
    if (errors.unequal != ElementErrors::kNone) {
      const auto [got, want] = expected.value(address, errors.unequal);
      return wrong(is_exact(spec.dtype) ? std::abs(got - want) : INFINITY,
                   expected.sentence(address, errors.unequal));
    }
    for (const Expected::Run& run : expected_.runs()) {
      if (run.tensor != spec.name || run.also.empty()) continue;
      const double got = reader(t).read(run.first, 1)[0];
      if (const std::string sentence = wrong_choice(run, got); !sentence.empty())
        return wrong(std::abs(got - run.values[0]), sentence);
    }
    const double rel =
        errors.squares == 0 ? 0 : std::sqrt(errors.squares / std::max(expected.squares(), 1e-300));
    verdict.rel_l2_err = std::max(verdict.rel_l2_err, rel);
    verdict.max_abs_err = std::max(verdict.max_abs_err, errors.largest);
    // A relative error that is NaN is too far.
    if (!(rel <= tolerance_.rel_l2 && errors.largest <= tolerance_.max_rel * expected.largest()))
      too_far[spec.name] = expected.sentence(address, errors.worst);
  }
  if (!too_far.empty()) {
    verdict.ok = false;
    verdict.detail = too_far.rbegin()->second;
  } else if (const std::string name = set.broken_guard_band(); !name.empty()) {
    verdict.ok = false;
    verdict.detail = fmt::format("memory outside '{}' was written", name);
  }
  return verdict;
}

}  // namespace warptune
