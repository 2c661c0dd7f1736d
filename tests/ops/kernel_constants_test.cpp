// The declared geometry of a variant fits its kernel: the block has the threads of the launch bounds, and the
// dynamic shared memory what `kSharedBytes` in the kernel counts. The front end of NVRTC compares them, in a
// program of static_asserts per source, which compiles no kernel.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "harness/core/error.h"
#include "harness/device/nvrtc.h"
#include "harness/tune/schedule.h"
#include "harness/tune/sweep.h"
#include "variants/table.h"

namespace warptune {
namespace {

constexpr int kMostConfigs = 8, kMostAsserts = 400;  // per variant and problem; per source
constexpr std::int64_t kAlignmentBytes = 512;        // that a declaration may add to the sum of its parts

/// The position after the parenthesis that closes the one before `at`.
std::size_t after_parentheses(const std::string& text, std::size_t at) {
  for (int depth = 1; depth > 0; ++at) depth += text.at(at) == '(' ? 1 : text.at(at) == ')' ? -1 : 0;
  return at;
}

/// What a source says of the launches of its kernels: names of constants, and the text that defines them.
struct KernelConstants {
  std::set<std::string> names;  // "linear_wgmma_threads", "linear_wgmma_shared_bytes"
  std::string text;

  /// Each becomes a template with the parameters of its kernel.
  explicit KernelConstants(const std::string& source) {
    constexpr std::string_view kBounds = "__launch_bounds__(",
                               kShared = "[[maybe_unused]] static constexpr int kSharedBytes =";
    for (std::size_t at = 0; (at = source.find(kBounds, at)) != std::string::npos; ++at) {
      const std::size_t head = source.rfind("template <", at);
      const std::string parameters = source.substr(head, source.rfind("__global__", at) - head);
      const std::size_t bounds = at + kBounds.size(), after = after_parentheses(source, bounds);
      const std::size_t begin = source.find_first_not_of(" \n", after), end = source.find('(', begin);
      const std::string name = source.substr(begin, end - begin);
      // Of several bounds the first counts.
      add(name + "_threads",
          fmt::format("{}constexpr int {}_threads() {{ const int bounds[] = {{{}}}; return bounds[0]; }}\n",
                      parameters, name, source.substr(bounds, after - 1 - bounds)));
      const std::size_t body = source.find('{', after_parentheses(source, end + 1)) + 1;
      const std::size_t shared = source.find(kShared, body);
      if (shared == std::string::npos || shared > source.find("__global__", body)) continue;
      const std::size_t value = shared + kShared.size();
      add(name + "_shared_bytes", fmt::format("{}constexpr int {}_shared_bytes() {{{}return {}; }}\n",
                                              parameters, name, source.substr(body, shared - body),
                                              source.substr(value, source.find(';', value) - value)));
    }
  }

 private:
  void add(std::string name, const std::string& definition) {
    names.insert(std::move(name));
    text += definition;
  }
};

/// The static_asserts of a stage's launch.
std::vector<std::string> asserts_of(const KernelConstants& constants, const Variant& variant,
                                    const Stage& stage, const Problem& problem, const Config& config,
                                    const DeviceFacts& facts) {
  const std::string kernel = expand_kernel_name(variant, stage, problem, config);
  const std::string name = kernel.substr(0, kernel.find('<')), arguments = kernel.substr(name.size());
  const Launch launch = launch_of(variant, stage, problem, config, facts);
  std::vector<std::string> asserts;
  const auto add = [&](const std::string& condition) {
    asserts.push_back(fmt::format("static_assert({});  // {} {}\n", condition, problem.key(), config.str()));
  };
  if (const std::string threads = name + "_threads"; constants.names.contains(threads))
    add(fmt::format("{}{}() == {}", threads, arguments, launch.block.x * launch.block.y * launch.block.z));
  if (const std::string bytes = name + "_shared_bytes"; constants.names.contains(bytes)) {
    // A block that has an SM asks for half of its shared memory at least.
    const bool fills_sm = launch.pdl && launch.shared_bytes == facts.shared_per_block / 2;
    add(fmt::format("{0}{1}() <= {2} && ({4} || {2} <= {0}{1}() + {3})", bytes, arguments,
                    launch.shared_bytes, kAlignmentBytes, fills_sm));
  } else  // that of short_context depends on the longest sequence, which the kernel does not know
    EXPECT_TRUE(launch.shared_bytes == 0 || name == "attention_decode_short_context") << name;
  return asserts;
}

#if WARPTUNE_HAS_CUDA
TEST(KernelConstants, AreThoseOfTheDeclaredGeometry) {
  const KernelSources sources;
  const DeviceFacts facts = known_device("sm_90a");
  std::map<std::string, KernelConstants> constants;  // by source
  std::map<std::string, std::set<std::string>> asserts;
  std::set<const Variant*> seen;
  for (const char* name : {"attention", "edges", "features", "kv_caches", "linear_quantized", "llama",
                           "llama3-8b", "quick", "spaces"}) {
    const Sweep sweep = load_sweep(ops(), fmt::format("{}/configs/{}.yaml", SOURCE_ROOT, name));
    for (const ScheduledProblem& scheduled : make_schedule(sweep, facts)) {
      std::map<const Variant*, std::vector<Candidate>> candidates;
      for (const Candidate& c : scheduled.candidates)
        if (has_machine_code(*c.variant)) candidates[c.variant].push_back(c);
      for (const auto& [variant, all] : candidates)
        for (const Candidate& c : spread(all, kMostConfigs)) {
          const Config config = c.config();
          const Problem& problem = scheduled.item->problem;
          seen.insert(variant);
          for (const Stage* stage : active_kernels(*variant, problem, config)) {
            const auto known = constants.try_emplace(stage->file, sources.read(stage->file)).first;
            for (std::string& text : asserts_of(known->second, *variant, *stage, problem, config, facts))
              asserts[stage->file].insert(std::move(text));
          }
        }
    }
  }
  for (const OpEntry& entry : ops())
    for (const Variant& variant : entry.variants)
      EXPECT_TRUE(
          seen.contains(&variant) ||
          std::ranges::all_of(variant.stages,
                              [](const Stage& stage) { return stage.geometry.shared_bytes.number() == 0; }))
          << entry.op.name << "/" << variant.name;
  for (const auto& [file, texts] : asserts) {
    std::string program =
        fmt::format("#include \"{}\"\nnamespace warptune {{\n{}", file, constants.at(file).text);
    for (const std::string& text : spread(std::vector(texts.begin(), texts.end()), kMostAsserts))
      program += text;
    CustomKernel::Files files = {{"checks.cu", program + "__global__ void none() {}\n}\n"}};
    std::ranges::copy(sources.closure(file), std::back_inserter(files));
    EXPECT_NO_THROW(run_nvrtc(files, "warptune::none", {"-arch=sm_90a", "-std=c++20", "-default-device"}))
        << file;
  }
}

#endif

}  // namespace
}  // namespace warptune
