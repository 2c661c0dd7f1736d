// A GPU as an older architecture: features and limits of the older one, SMs of the GPU.
#include "harness/core/facts.h"

#include <gtest/gtest.h>

#include <sstream>

#include "harness/core/error.h"

namespace warptune {
namespace {

DeviceFacts named(const char* name) {
  DeviceFacts facts = known_device("sm_90a");
  facts.name = name;
  return facts;
}

TEST(FactsAs, HasTheFeaturesAndLimitsOfTheOlderArchitecture) {
  DeviceFacts real = named("NVIDIA H100 80GB HBM3");
  real.id = "GPU-1";
  real.read_gb_per_s = 3000;
  const DeviceFacts facts = facts_as(real, "sm_80");
  EXPECT_EQ(facts.arch, "sm_90a-as-sm_80");
  EXPECT_EQ(facts.arch_number(), 80);
  EXPECT_FALSE(facts.has_bulk_copy() || facts.has_wgmma() || facts.has_clusters() || facts.has_pdl() ||
               facts.has_fp8_conversion());
  EXPECT_EQ(facts.shared_per_block, 163 << 10);
  EXPECT_EQ(facts.shared_per_sm, 164 << 10);
  EXPECT_EQ(facts.sms, 132);
  EXPECT_EQ(facts.id, "GPU-1") << "one lock for both";
  EXPECT_EQ(facts.read_gb_per_s, 3000);
  EXPECT_TRUE(facts.is_rehearsal());
  EXPECT_FALSE(real.is_rehearsal() || known_device("sm_80").is_rehearsal());
  EXPECT_EQ(facts_as(known_device("sm_120"), "sm_80").shared_per_block, 99 << 10) << "of the GPU, if smaller";
  EXPECT_TRUE(facts_as(known_device("sm_100"), "sm_90a").has_bulk_copy());
  EXPECT_FALSE(facts_as(known_device("sm_100"), "sm_90a").has_wgmma()) << "runs on sm_90a only";
}

TEST(KnownDevices, HaveFeaturesByTheirComputeCapabilityAndLimitsOfTheirOwn) {
  std::istringstream archs(known_archs());
  for (std::string arch; std::getline(archs >> std::ws, arch, ',');) {
    const DeviceFacts facts = known_device(arch);
    const int number = facts.arch_number();
    EXPECT_EQ(facts.arch, arch);
    EXPECT_EQ(facts.has_bulk_copy() && facts.has_clusters() && facts.has_pdl(), number >= 90) << arch;
    EXPECT_EQ(facts.has_fp8_conversion(), number >= 89) << arch;
    EXPECT_EQ(facts.has_wgmma(), arch == "sm_90a") << arch;
    const bool small = number == 86 || number == 89 || number >= 120;
    EXPECT_EQ(facts.shared_per_block == 99 << 10, small) << arch;
    EXPECT_EQ(facts.family_note().empty(), number == 80 || number == 90) << arch;
  }
}

TEST(FactsAs, TheNameIsTheModelAndTheArchitecture) {
  for (const auto& [name, expected] : {std::pair{"NVIDIA H100 80GB HBM3", "h100-as-sm_80"},
                                       {"NVIDIA H200", "h200-as-sm_80"},
                                       {"NVIDIA H100-PCIe", "h100-as-sm_80"},
                                       {"NVIDIA GeForce RTX 5090", "5090-as-sm_80"},
                                       {"unknown", "unknown-as-sm_80"}}) {
    EXPECT_EQ(facts_as(named(name), "sm_80").name, expected);
    EXPECT_EQ(facts_as(named(name), "sm_80").slug(), expected) << "its folder";
  }
  const DeviceFacts known = known_device("sm_90a-as-sm_80");
  EXPECT_EQ(known.name, "h200-as-sm_80");
  EXPECT_EQ(known.arch, "sm_90a-as-sm_80");
}

TEST(FactsAs, RefusesWhatIsNotOlderAndTheHost) {
  const auto refusal = [](const DeviceFacts& device, const char* arch) {
    try {
      return "taken: " + facts_as(device, arch).name;
    } catch (const InputError& e) {
      return std::string(e.what());
    }
  };
  const DeviceFacts h200 = named("NVIDIA H200"),
                    host{.backend = Backend::host, .name = "host", .arch = "x86_64"};
  EXPECT_EQ(refusal(h200, "sm_81"), "unknown architecture 'sm_81'; known are " + known_archs());
  const std::string rule = ": it takes a GPU of a newer architecture";
  EXPECT_EQ(refusal(h200, "sm_90"), "'NVIDIA H200' (sm_90a) cannot run as sm_90" + rule);
  EXPECT_EQ(refusal(h200, "sm_100"), "'NVIDIA H200' (sm_90a) cannot run as sm_100" + rule);
  EXPECT_EQ(refusal(host, "sm_80"), "'host' (x86_64) cannot run as sm_80" + rule);
  EXPECT_EQ(refusal(known_device("sm_90a-as-sm_80"), "sm_80"),
            "'h200-as-sm_80' (sm_90a-as-sm_80) cannot run as sm_80" + rule);
}

}  // namespace
}  // namespace warptune
