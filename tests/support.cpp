#include "tests/support.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "harness/core/error.h"
#include "harness/core/parallel.h"
#include "harness/core/space.h"
#include "harness/device/compile.h"
#include "harness/device/device.h"
#include "harness/verify/oracle.h"

namespace warptune::testing {
namespace {

/// WARPTUNE_TEST_CONFIGS lowers the limit (for runs under compute-sanitizer).
std::vector<Config> spread(std::vector<Config> configs, int max_configs) {
  if (const char* fewer = std::getenv("WARPTUNE_TEST_CONFIGS"))
    max_configs = std::min(max_configs, std::max(2, std::atoi(fewer)));
  return warptune::spread(std::move(configs), max_configs);
}

/// Fills the cubin cache on all cores, so that the checks only load.
void compile_ahead(const DeviceFacts& facts, std::span<const ChosenConfig> configs) {
  const Compiler compiler(KernelSources(), default_cache_folder());
  parallel_for(static_cast<std::int64_t>(configs.size()),
               static_cast<int>(std::thread::hardware_concurrency()), [&](std::int64_t i) {
                 const auto& [variant, problem, config] = configs[static_cast<std::size_t>(i)];
                 if (variant->stages.empty()) return;
                 try {
                   inspect(compiler, *variant, problem, config, facts);
                 } catch (const std::exception&) {
                   // the check reports the same error
                 }
               });
}

/// Fails if a kernel uses more shared memory than its variant declares, or less without static shared memory.
void expect_declared_shared_bytes(const ChosenConfig& c, const DeviceFacts& facts, std::int64_t used) {
  constexpr std::int64_t kReservedBytes = 1024;  // of each block on an SM
  const VariantValues values(*c.variant, c.problem, c.config, &facts);
  const std::int64_t declared = values.integer(c.variant->limits.shared_bytes);
  if (declared == 0) return;
  std::int64_t dynamic = 0;
  for (const Stage* stage : active_kernels(*c.variant, c.problem, c.config))
    dynamic = std::max(dynamic, launch_of(*c.variant, *stage, c.problem, c.config, facts).shared_bytes);
  const std::int64_t blocks = c.config.find("blocks_per_sm") ? c.config["blocks_per_sm"] : 1;
  const std::int64_t needed = blocks * (used + kReservedBytes) - kReservedBytes;
  EXPECT_LE(needed, declared);
  if (used == dynamic) {
    EXPECT_EQ(needed, declared);
  }
}

/// Fails if a configuration does not compile. It may need more than the device has.
void expect_compiles(const Compiler& compiler, const ChosenConfig& c, const DeviceFacts& facts) {
  SCOPED_TRACE(c.problem.key() + " " + c.variant->name + " " + c.config.str() + " " + facts.arch);
  if (c.variant->stages.empty()) return;
  try {
    const Resources used = inspect(compiler, *c.variant, c.problem, c.config, facts);
    expect_declared_shared_bytes(c, facts, used.shared_bytes);
  } catch (const ResourceError&) {
  } catch (const std::exception& e) {
    ADD_FAILURE() << e.what();
  }
}

/// Prepares a configuration, launches it twice and compares each time.
void check_config(Device& device, const OpEntry& entry, const Problem& problem, const Oracle& oracle,
                  const Variant& variant, const Config& config, const ChangeArgs& change = {}) {
  SCOPED_TRACE(problem.key() + " " + variant.name + " " + config.str());
  std::unique_ptr<Plan> plan;
  try {
    plan = device.prepare(variant, problem, config);
  } catch (const ResourceError&) {
    return;  // more than this device has
  }
  Buffer workspace;
  if (const auto bytes = plan->workspace_bytes()) {
    workspace = device.allocate(static_cast<std::size_t>(bytes));
    device.set_bytes(workspace.data(), 0, static_cast<std::size_t>(bytes), device.stream());
  }
  TensorSet set(device, oracle.specs());
  set.fill(oracle.specs(), oracle.seed());
  Args args = entry.op.bind(problem, set.addresses(), workspace.data());
  if (change) args = change(problem, args);
  for (int run = 0; run < 2; ++run) {  // twice: a variant must leave its workspace ready for the next launch
    set.reset_outputs(oracle.specs(), oracle.seed());
    plan->launch(args.data(), device.stream());
    device.synchronize();
    const Verdict verdict = oracle.compare(set);
    EXPECT_TRUE(verdict.ok) << verdict.detail << " (rel_l2 " << verdict.rel_l2_err << ", max_abs "
                            << verdict.max_abs_err << ", run " << run << ")";
  }
}

/// At most `max_configs` configurations of each variant that takes the problem.
std::vector<ChosenConfig> spread_configs(const OpEntry& entry, const Problem& problem, int max_configs,
                                         const DeviceFacts& facts) {
  std::vector<ChosenConfig> chosen;
  for (const Variant& variant : entry.variants) {
    if (variant.backend != facts.backend || !takes(variant, problem.dtype)) continue;
    for (const Config& config : spread(Space(variant, problem, facts).configs(), max_configs))
      chosen.push_back({&variant, problem, config});
  }
  return chosen;
}

/// Checks the configurations of one problem.
void check_configs(Device& device, const OpEntry& entry, const Problem& problem, std::uint64_t seed,
                   std::span<const ChosenConfig> chosen) {
  if (std::ranges::count(chosen, problem, &ChosenConfig::problem) == 0) {
    EXPECT_NE(std::getenv("WARPTUNE_TEST_VARIANT"), nullptr) << "no variant takes " << problem.key();
    return;
  }
  const Oracle oracle(entry.op, problem, seed, 4e8);
  for (const ChosenConfig& c : chosen)
    if (c.problem == problem) check_config(device, entry, problem, oracle, *c.variant, c.config);
}

}  // namespace

bool takes(const Variant& variant, DType dtype) {
  // Excludes findings of the sanitizer in vendor kernels.
  const char* vendor = std::getenv("WARPTUNE_TEST_VENDOR");
  if (calls_library(variant) && vendor && std::string(vendor) == "0") return false;
  const char* only = std::getenv("WARPTUNE_TEST_VARIANT");
  if (only && variant.name != only) return false;
  return variant.dtypes.empty() || std::ranges::find(variant.dtypes, dtype) != variant.dtypes.end();
}

std::vector<ChosenConfig> covering_configs(const OpEntry& entry, const std::vector<Dims>& problems,
                                           DType dtype, const DeviceFacts& facts,
                                           std::vector<std::string>& missing) {
  std::vector<ChosenConfig> chosen;
  for (const Variant& variant : entry.variants) {
    if (variant.backend != facts.backend || !takes(variant, dtype)) continue;
    std::set<std::pair<std::string, std::int64_t>> open;
    std::vector<Override> in_steps;  // spaces have one value of these
    for (const Parameter& parameter : variant.parameters) {
      for (const std::int64_t value : parameter.values) open.emplace(parameter.name, value);
      if (parameter.in_step_only) in_steps.push_back({parameter.name, parameter.values});
    }
    for (const Dims& dims : problems) {
      const Problem problem = entry.op.problem(dims, dtype);
      for (const Config& config : Space(variant, problem, facts, in_steps).configs()) {
        std::size_t fresh = 0;
        for (const auto& value : config) fresh += open.erase({value.name, value.value});
        if (fresh > 0) chosen.push_back({&variant, problem, config});
      }
    }
    for (const auto& [name, value] : open)
      missing.push_back(entry.op.name + "/" + variant.name + " " + name + "=" + std::to_string(value));
  }
  return chosen;
}

void check_configs(Device& device, const OpEntry& entry, std::span<const ChosenConfig> configs,
                   const ChangeArgs& change) {
  std::map<std::string, Oracle> oracles;
  for (const auto& [variant, problem, config] : configs) {
    const Oracle& oracle = oracles.try_emplace(problem.key(), entry.op, problem, 7, 4e7).first->second;
    check_config(device, entry, problem, oracle, *variant, config, change);
  }
}

std::set<std::string> kernels_of(const ChosenConfig& chosen) {
  const auto& [variant, problem, config] = chosen;
  std::set<std::string> names;
  for (const Stage* stage : active_stages(*variant, problem, config))
    names.insert(stage->file + ' ' + expand_kernel_name(*variant, *stage, problem, config));
  return names;
}

void check_on_gpu(const Choose& choose,
                  const std::function<void(Device&, std::span<const ChosenConfig>)>& check) {
  if (cuda_device_count() > 0) {
    const auto device = open_device("cuda:0");
    const auto chosen = choose(device->facts());
    compile_ahead(device->facts(), chosen);
    return check(*device, chosen);
  }
  if (const char* arch = std::getenv("WARPTUNE_TEST_COMPILE")) {
    const DeviceFacts facts = known_device(arch);
    const auto chosen = choose(facts);
    compile_ahead(facts, chosen);
    const Compiler compiler(KernelSources(), default_cache_folder());
    for (const ChosenConfig& c : chosen) expect_compiles(compiler, c, facts);
  }
  GTEST_SKIP() << "no CUDA device";
}
void check_on_gpu(const OpEntry& entry, const Choose& choose) {
  check_on_gpu(choose, [&](Device& device, std::span<const ChosenConfig> chosen) {
    check_configs(device, entry, chosen);
  });
}

void check_covering_configs(const OpEntry& entry, const std::vector<Dims>& problems, DType dtype) {
  std::vector<std::string> missing;  // another test checks them
  check_on_gpu(entry, [&](const DeviceFacts& facts) {
    return covering_configs(entry, problems, dtype, facts, missing);
  });
}

std::string shape_name(const ::testing::TestParamInfo<Dims>& shape) {
  std::string name;
  for (const auto& [dim, value] : shape.param) name += (name.empty() ? "" : "_") + dim + "_" + value;
  std::ranges::replace(name, '-', 'm');  // the sign of a number: names of tests are letters, digits and '_'
  return name;
}

void check_host_variants(const OpEntry& entry, const Problem& problem, int max_configs) {
  const auto device = open_device("host");
  check_configs(*device, entry, problem, 7, spread_configs(entry, problem, max_configs, device->facts()));
}
void check_host_variants(const OpEntry& entry, const Dims& dims, std::span<const DType> dtypes) {
  for (const DType dtype : dtypes) check_host_variants(entry, entry.op.problem(dims, dtype), 1000);
}
void check_host_variants(const std::string& op, const Dims& dims, std::span<const DType> dtypes) {
  check_host_variants(find_op(op), dims, dtypes);
}

void check_cuda_variants(const OpEntry& entry, const Dims& dims, std::span<const DType> dtypes,
                         int max_configs) {
  std::size_t checked = 0;
  for (const DType dtype : dtypes) {
    const Problem problem = entry.op.problem(dims, dtype);
    check_on_gpu([&](const DeviceFacts& facts) { return spread_configs(entry, problem, max_configs, facts); },
                 [&](Device& device, std::span<const ChosenConfig> chosen) {
                   check_configs(device, entry, problem, 7, chosen);
                   checked += chosen.size();
                 });
  }
  if (checked == 0) GTEST_SKIP() << "no configuration was checked";
}
void check_cuda_variants(const std::string& op, const Dims& dims, std::span<const DType> dtypes,
                         int max_configs) {
  check_cuda_variants(find_op(op), dims, dtypes, max_configs);
}

void check_random_configs(const OpEntry& entry, std::span<const Problem> problems, int configs,
                          std::uint64_t seed) {
  const auto choose = [&](const DeviceFacts& facts) {
    std::mt19937_64 random(seed);
    std::vector<ChosenConfig> chosen;
    for (const Variant& variant : entry.variants) {
      if (variant.backend != facts.backend || !takes(variant, problems.front().dtype)) continue;
      auto all = Space(variant, problems.front(), facts).configs();
      std::ranges::shuffle(all, random);
      all.resize(std::min(all.size(), static_cast<std::size_t>(configs)));
      for (const Problem& problem : problems) {
        const Space space(variant, problem, facts);
        for (const Config& config : all)
          if (!space.broken_constraint(config)) chosen.push_back({&variant, problem, config});
      }
    }
    return chosen;
  };
  check_on_gpu(choose, [&](Device& device, std::span<const ChosenConfig> chosen) {
    for (const Problem& problem : problems) check_configs(device, entry, problem, seed, chosen);
  });
}

OpEntry with_input(OpEntry entry, std::string tensor, std::function<float(const Problem&, std::int64_t)> at) {
  entry.op.tensors = [=, tensors = entry.op.tensors](const Problem& p, std::uint64_t seed) {
    auto specs = tensors(p, seed);
    TensorSpec& spec = *std::ranges::find(specs, tensor, &TensorSpec::name);
    for (std::int64_t i = 0; i < spec.count(); ++i) spec.floats.push_back(at(p, i));
    return specs;
  };
  return entry;
}

OpEntry with_tolerance(OpEntry entry, Tolerance tolerance) {
  entry.op.tolerance = [=](const Problem&) { return tolerance; };
  return entry;
}

OpEntry with_rest_kept(OpEntry entry, std::vector<std::string> names) {
  const Op op = entry.op;
  entry.op.tensors = [=](const Problem& p, std::uint64_t seed) {
    auto specs = op.tensors(p, seed);
    for (TensorSpec& spec : specs)
      if (std::ranges::count(names, spec.name)) spec.role = Role::inout;
    return specs;
  };
  entry.op.reference = [=](const Problem& p, const Inputs& in, std::int64_t unit, Expected& out) {
    op.reference(p, in, unit, out);
    if (unit > 0) return;
    Expected written;
    for (std::int64_t u = 0; u < op.units(p); ++u) op.reference(p, in, u, written);
    for (const TensorSpec& spec : op.tensors(p, 0)) {
      if (!std::ranges::count(names, spec.name)) continue;
      std::vector<bool> kept(static_cast<std::size_t>(spec.count()), true);
      for (const auto& run : written.runs())
        if (run.tensor == spec.name)
          for (std::size_t i = 0; i < run.values.size(); ++i)
            kept[static_cast<std::size_t>(run.first) + i] = false;
      for (std::int64_t i = 0; i < spec.count(); ++i)
        if (kept[static_cast<std::size_t>(i)]) out.put(spec.name, i, {in[spec.name][i]});
    }
  };
  return entry;
}

void check_compiles(const std::string& op, const Dims& dims, std::span<const DType> dtypes, int max_configs) {
  check_compiles(find_op(op), dims, dtypes, max_configs);
}
void check_compiles(const OpEntry& entry, const Dims& dims, std::span<const DType> dtypes, int max_configs) {
#if WARPTUNE_HAS_CUDA
  const Compiler compiler(KernelSources(std::string(SOURCE_ROOT) + "/kernels"), default_cache_folder());
  for (const DType dtype : dtypes)
    for (const char* arch : {"sm_80", "sm_90a"}) {
      const Problem problem = entry.op.problem(dims, dtype);
      const DeviceFacts facts = known_device(arch);
      for (const Variant& variant : entry.variants) {
        if (variant.stages.empty() || !takes(variant, dtype)) continue;
        for (const Config& config : spread(Space(variant, problem, facts).configs(), max_configs))
          expect_compiles(compiler, {&variant, problem, config}, facts);
      }
    }
#else
  (void)entry, (void)dims, (void)dtypes, (void)max_configs;
  GTEST_SKIP() << "built without the CUDA Toolkit";
#endif
}

}  // namespace warptune::testing
