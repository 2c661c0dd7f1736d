// The NVTX ranges of decode, tune and inspect, as a tool sees them (tests/nvtx_log.cpp).
#include "harness/device/nvtx.h"

#include <algorithm>
#include <set>
#include <sstream>

#include "tests/program.h"
#include "variants/table.h"

namespace warptune {
namespace {
namespace fs = std::filesystem;

/// One range, with the names of the ranges around it: "step 1 > layer 0 > swiglu[..] host_naive".
struct Range {
  int process;
  std::string path, name, category, color;
  bool registered;
};

class NvtxRanges : public ::testing::Test {
 protected:
  void SetUp() override {
#ifndef NVTX_LOG_LIBRARY
    GTEST_SKIP() << "this build has no NVTX";
#endif
  }

  /// Runs the program under the tool, and reads the ranges.
  void run(const std::string& arguments) {
#ifdef NVTX_LOG_LIBRARY
    const fs::path log = folder_ / "log";
    fs::remove(log);
    const auto ended = testing::run_shell(
        "NVTX_INJECTION64_PATH=" NVTX_LOG_LIBRARY " NVTX_LOG=" + log.string() + " {} " + arguments);
    ASSERT_EQ(ended.code, 0) << ended.text;
    read(log);
#endif
  }

  void read(const fs::path& log) {
    ranges_.clear();
    std::map<std::string, std::vector<std::string>> open;  // by thread
    std::ifstream in(log);
    for (std::string line; std::getline(in, line);) {
      std::vector<std::string> fields;
      std::istringstream split(line);
      for (std::string field; std::getline(split, field, '\t');) fields.push_back(field);
      ASSERT_GE(fields.size(), 4u) << line;
      EXPECT_EQ(fields[3], "warptune") << line;
      auto& stack = open[fields[1]];
      if (fields[2] == "pop") {
        ASSERT_FALSE(stack.empty()) << line;
        stack.pop_back();
        continue;
      }
      ASSERT_EQ(fields.size(), 8u) << line;
      stack.push_back((stack.empty() ? "" : stack.back() + " > ") + fields[7]);
      ranges_.push_back({.process = std::stoi(fields[0]),
                         .path = stack.back(),
                         .name = fields[7],
                         .category = fields[4],
                         .color = fields[5],
                         .registered = fields[6] == "registered"});
    }
    for (const auto& [thread, stack] : open)
      EXPECT_TRUE(stack.empty()) << stack.back() << " is open at the end";
  }

  std::vector<Range> all(const std::string& category) const {
    std::vector<Range> found;
    for (const Range& range : ranges_)
      if (range.category == category) found.push_back(range);
    return found;
  }
  /// How many ranges there are whose path begins so, without the ranges inside them.
  int count(const std::string& path) const {
    return static_cast<int>(std::ranges::count_if(ranges_, [&](const Range& range) {
      return range.path.starts_with(path) && range.path.find(" > ", path.size()) == std::string::npos;
    }));
  }

  const fs::path folder_ = testing::fresh_folder("nvtx");
  std::vector<Range> ranges_;
};

std::string decode(const fs::path& out, const std::string& arguments) {
  return "decode --device host --out " + out.string() +
         " --model " TEST_DATA "/golden/gqa --batch 2 --prompt-len 5,7 " + arguments;
}

TEST_F(NvtxRanges, DecodeNamesPrefillStepsAndGraphs) {
  run(decode(folder_, "--steps 5 --profile-steps 2"));
  // Prefill: ops in layers, and ops around them.
  EXPECT_EQ(count("prefill batch=2 tokens=12"), 1);
  EXPECT_EQ(count("prefill batch=2 tokens=12 > embedding["), 2) << "the tokens and the last rows";
  EXPECT_EQ(count("prefill batch=2 tokens=12 > layer 1 > attention_prefill["), 1);
  EXPECT_EQ(count("prefill batch=2 tokens=12 > layer 1 > linear["), 4);
  EXPECT_EQ(count("prefill batch=2 tokens=12 > linear["), 1) << "the head";
  // Each step replays one graph.
  EXPECT_EQ(count("step 1 > graph gqa batch=2 context="), 1);
  EXPECT_EQ(count("step 4"), 0) << "it is in the window";
  EXPECT_EQ(count("steady window"), 1);
  EXPECT_EQ(count("steady window > step "), 2);
  EXPECT_EQ(count("steady window > step 4 > graph gqa batch=2 context="), 1);
  EXPECT_EQ(count("steady window > step 5 > graph gqa batch=2 context="), 1);
  // The report's times.
  EXPECT_GE(count("time step context=12 > graph gqa batch=2 context="), 5);
  EXPECT_GE(count("time ops context=12 > swiglu["), 5);
}

TEST_F(NvtxRanges, AStepWithoutGraphNamesLayersAndOps) {
  run(decode(folder_, "--steps 2 --graph off"));
  EXPECT_TRUE(all("graph").empty());
  for (const char* layer : {"step 2 > layer 0", "step 2 > layer 1"}) {
    EXPECT_EQ(count(layer), 1);
    EXPECT_EQ(count(std::string(layer) + " > linear["), 4);
    EXPECT_EQ(count(std::string(layer) + " > swiglu["), 1);
    EXPECT_EQ(count(std::string(layer) + " > add_rms_norm["), 2);
  }
  EXPECT_EQ(count("step 2 > argmax["), 1);
  EXPECT_EQ(count("step 2 > advance["), 1);

  std::map<std::string, std::string> colors;  // by op
  for (const Range& range : all("op")) {
    EXPECT_TRUE(range.registered) << range.name;
    EXPECT_NE(range.name.find("] host_"), std::string::npos) << "the variant is part of " << range.name;
    const std::string op = range.name.substr(0, range.name.find('['));
    EXPECT_EQ(colors.emplace(op, range.color).first->second, range.color) << op;
  }
  std::set<std::string> distinct;
  for (const auto& [op, color] : colors) distinct.insert(color);
  EXPECT_GE(colors.size(), 9u);
  EXPECT_EQ(distinct.size(), colors.size());
}

TEST_F(NvtxRanges, TuneNamesTheStagesOfEachConfiguration) {
  run("tune " + testing::host_sweep(folder_, "64", "[1, 2]") + " --out " + folder_.string());
  const std::string problem = "rms_norm[tokens=8,hidden=64,dtype=fp32]";
  std::set<int> processes;
  for (const Range& range : all("problem")) {
    EXPECT_EQ(range.name, problem);
    processes.insert(range.process);
  }
  EXPECT_EQ(processes.size(), 2u) << "the program and its worker";
  EXPECT_EQ(count(problem + " > set up"), 1);
  int finalists = 0;
  for (const std::string config :
       {"host_naive > no parameters", "host_threaded > threads=1", "host_threaded > threads=2"}) {
    std::vector<std::string> stages;
    for (const Range& range : all("stage"))
      if (range.path.starts_with(problem + " > " + config + " > ")) {
        EXPECT_TRUE(range.registered);
        stages.push_back(range.name);
      }
    ASSERT_GE(stages.size(), 4u) << config;
    finalists += stages.size() > 4;
    stages.resize(4);
    EXPECT_EQ(stages, (std::vector<std::string>{"compile", "verify", "time", "verify"})) << config;
  }
  EXPECT_GE(finalists, 1) << "the winner at least is compiled and verified again, as a finalist";
  EXPECT_GE(count(problem + " > time"), 1) << "the finalists in turn";
}

TEST_F(NvtxRanges, CompileJobsNameWhatTheyCompile) {
#if !WARPTUNE_HAS_CUDA
  GTEST_SKIP() << "this build has no NVRTC";
#endif
  const fs::path sweep = folder_ / "sweep.yaml";
  std::ofstream(sweep)
      << "ops:\n  - op: rms_norm\n    dtypes: bf16\n    problems: [{tokens: 1, hidden: 64}]\n"
         "    variants: [naive: {parameters: {block: 128}}]\n";
  run("inspect " + sweep.string() + " --arch sm_90a");
  EXPECT_EQ(count("rms_norm[tokens=1,hidden=64,dtype=bf16] > naive > block=128 > compile"), 1);
}

TEST(Nvtx, ColorsOfOpsAreApart) {
  const auto channel = [](std::uint32_t color, int shift) { return static_cast<int>(color >> shift & 0xff); };
  for (const OpEntry& a : ops())
    for (const OpEntry& b : ops()) {
      if (&a == &b) break;
      int squares = 0;
      for (const int shift : {0, 8, 16}) {
        const int apart = channel(nvtx_color(a.op.name), shift) - channel(nvtx_color(b.op.name), shift);
        squares += apart * apart;
      }
      EXPECT_GE(squares, 30 * 30) << a.op.name << " looks like " << b.op.name
                                  << "; try another salt in nvtx.cpp";
      EXPECT_EQ(channel(nvtx_color(a.op.name), 24), 0xff) << "opaque";
    }
}

TEST(Nvtx, WithoutAToolNoTextIsBuilt) {
  ASSERT_FALSE(nvtx_listens());
  const auto never = [] {
    ADD_FAILURE() << "a text was built";
    return std::string();
  };
  const NvtxName name(NvtxKind::op, "linear", never);
  const NvtxRange first(name), second(NvtxKind::phase, "", never);
}

/// A profiler shows kernels by name, also those of a CUDA graph, which lie in no range of their op.
TEST(Nvtx, KernelNamesBeginWithTheirOp) {
  for (const OpEntry& entry : ops())
    for (const Variant& variant : entry.variants)
      for (const Stage& stage : variant.stages) {
        if (stage.library) continue;
        const std::string kernel = stage.kernel.substr(0, stage.kernel.find('<'));
        EXPECT_TRUE(kernel.starts_with(entry.op.name + "_")) << variant.name << ": " << kernel;
      }
}

}  // namespace
}  // namespace warptune
