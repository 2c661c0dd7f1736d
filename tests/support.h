#pragma once
// Checks that every op's tests share.
#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "variants/table.h"

namespace warptune {
class Device;
struct DeviceFacts;
}  // namespace warptune

namespace warptune::testing {

using Dims = std::vector<std::pair<std::string, std::string>>;

/// The name of a parameterised test: "tokens_1_hidden_4096".
std::string shape_name(const ::testing::TestParamInfo<Dims>& shape);

/// Runs every host variant with every one of its configurations on a problem and compares all units with the
/// fp64 reference (poisoned outputs, guard bands). `dims` are text: {{"tokens", "3"}, {"style",
/// "interleaved"}}.
void check_host_variants(const std::string& op, const Dims& dims, std::span<const DType> dtypes);
/// The same on the GPU for every CUDA variant; skips the test with a message if there is no GPU. At most
/// `max_configs` configurations per variant, spread over the space.
void check_cuda_variants(const std::string& op, const Dims& dims, std::span<const DType> dtypes,
                         int max_configs = 24);
/// The same checks of an op that a test has changed with the functions below.
void check_host_variants(const OpEntry& entry, const Dims& dims, std::span<const DType> dtypes);
void check_host_variants(const OpEntry& entry, const Problem& problem, int max_configs);
void check_cuda_variants(const OpEntry& entry, const Dims& dims, std::span<const DType> dtypes,
                         int max_configs = 24);
/// For problems of one op and dtype with the same kernels: runs `configs` random configurations of each CUDA
/// variant, legal on the first problem, on every problem where they are legal.
void check_random_configs(const OpEntry& entry, std::span<const Problem> problems, int configs,
                          std::uint64_t seed);
/// Element i of a float input is at(problem, i) instead of a random number.
OpEntry with_input(OpEntry entry, std::string tensor, std::function<float(const Problem&, std::int64_t)> at);
OpEntry with_tolerance(OpEntry entry, Tolerance tolerance);
/// Fills tensors that the op writes only in part with random numbers; elements that it does not write must
/// stay.
OpEntry with_rest_kept(OpEntry entry, std::vector<std::string> tensors);

/// Compiles CUDA variants for sm_80 and sm_90a (no GPU needed), at most `max_configs` per variant and
/// architecture, and fails on an error. Skips where the build has no CUDA.
void check_compiles(const std::string& op, const Dims& dims, std::span<const DType> dtypes,
                    int max_configs = 4);
void check_compiles(const OpEntry& entry, const Dims& dims, std::span<const DType> dtypes,
                    int max_configs = 4);

/// A configuration of a variant, for a problem.
struct ChosenConfig {
  const Variant* variant;
  Problem problem;
  Config config;
};
/// A small set of configurations that covers every value of every parameter of the variants of a device.
/// `missing` gets the values that are legal on no problem.
std::vector<ChosenConfig> covering_configs(const OpEntry& entry, const std::vector<Dims>& problems,
                                           DType dtype, const DeviceFacts& facts,
                                           std::vector<std::string>& missing);
/// Changes the args of a launch.
using ChangeArgs = std::function<Args(const Problem&, const Args&)>;
/// Compares configurations with the reference on a device; compiles them ahead on all cores.
void check_configs(Device& device, const OpEntry& entry, std::span<const ChosenConfig> configs,
                   const ChangeArgs& change = {});
/// The kernels that a configuration launches.
std::set<std::string> kernels_of(const ChosenConfig& chosen);
/// Whether a variant takes a dtype and is selected: WARPTUNE_TEST_VENDOR=0 excludes libraries,
/// WARPTUNE_TEST_VARIANT=flash_wgmma selects one variant.
bool takes(const Variant& variant, DType dtype);

/// Chooses configurations for the GPU, which are compiled ahead on all cores; the test is skipped without a
/// GPU. WARPTUNE_TEST_COMPILE=sm_90a compiles them without a GPU, so that a machine with such a GPU finds
/// them in its cubin cache.
using Choose = std::function<std::vector<ChosenConfig>(const DeviceFacts&)>;
void check_on_gpu(const Choose& choose,
                  const std::function<void(Device&, std::span<const ChosenConfig>)>& check);
/// Compares the chosen configurations with the reference.
void check_on_gpu(const OpEntry& entry, const Choose& choose);
/// Compares the covering configurations with the reference on the GPU.
void check_covering_configs(const OpEntry& entry, const std::vector<Dims>& problems, DType dtype);

inline constexpr DType kFloats[] = {DType::fp32, DType::fp16, DType::bf16};
inline constexpr DType kFp32[] = {DType::fp32}, kInts[] = {DType::int32};

}  // namespace warptune::testing
