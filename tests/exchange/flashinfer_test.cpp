#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>

#include "harness/core/error.h"
#include "harness/exchange/flashinfer_trace.h"
#include "tests/files.h"
#include "tests/program.h"
#include "tests/sweep_rows.h"
#include "variants/table.h"

namespace warptune {
namespace {
namespace fs = std::filesystem;
using nlohmann::json;
using testing::fresh_folder;
using testing::sweep_fields;
using testing::text_of;

const fs::path kData = fs::path(TEST_DATA) / "exchange";

/// The definition and the workloads of that name.
std::vector<fs::path> files_of(const std::vector<std::string>& names) {
  std::vector<fs::path> files;
  for (const std::string& name : names)
    for (const char* extension : {".json", ".jsonl"}) files.push_back(kData / (name + extension));
  return files;
}

std::vector<std::string> problems_of(const std::vector<std::string>& names) {
  std::vector<std::string> keys;
  for (const TracedWorkload& w : read_traces(ops(), files_of(names)).workloads)
    keys.push_back(w.problem.key());
  return keys;
}

TEST(ImportTrace, MapsEachOpTypeToAProblem) {
  EXPECT_EQ(problems_of({"rmsnorm_h4096"}),
            (std::vector<std::string>{"rms_norm[tokens=1,hidden=4096,dtype=bf16]",
                                      "rms_norm[tokens=32,hidden=4096,dtype=bf16]",
                                      "rms_norm[tokens=1,hidden=4096,dtype=bf16]"}));
  EXPECT_EQ(problems_of({"fused_add_rmsnorm_h4096"}),
            (std::vector<std::string>{"add_rms_norm[tokens=8,hidden=4096,dtype=bf16]"}));
  EXPECT_EQ(problems_of({"gemm_n6144_k4096"}).front(),
            "linear[tokens=1,in=4096,out=6144,bias=no,dtype=fp16]");
  EXPECT_EQ(problems_of({"gqa_paged_decode_h32_kv8_d128_ps1"}).front(),
            "attention_decode[batch=4,q_heads=32,kv_heads=8,head_dim=128,context=1024,uneven=no,k_layout=sd,"
            "append=no,bias=no,dtype=bf16]")
      << "4094 keys of 4 sequences; pages of one key are a contiguous cache";
  EXPECT_NE(problems_of({"gqa_paged_decode_h32_kv8_d128_ps64"}).front().find("context=1024,"),
            std::string::npos);
  EXPECT_NE(problems_of({"gqa_paged_decode_h32_kv8_d128_ps64"}).front().find("page_size=64"),
            std::string::npos);
  EXPECT_NE(
      problems_of({"gqa_ragged_prefill_causal_h32_kv8_d128"})
          .front()
          .find(
              "attention_prefill[batch=2,q_len=500,kv_len=500,q_heads=32,kv_heads=8,head_dim=128,causal=yes"),
      std::string::npos);
}

/// Copies of the files of rmsnorm_h4096 in which a text is replaced.
class ChangedTrace : public ::testing::Test {
 protected:
  std::vector<fs::path> changed(const std::string& extension, const std::string& from,
                                const std::string& to) {
    std::vector<fs::path> files;
    for (const fs::path& file : files_of({"rmsnorm_h4096"})) {
      std::string text = text_of(file);
      if (file.extension() == extension)
        for (auto at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
          text.replace(at, from.size(), to);
      files.push_back(folder_ / file.filename());
      std::ofstream(files.back(), std::ios::binary) << text;
    }
    return files;
  }
  void refused(const std::vector<fs::path>& files, const std::string& part) {
    try {
      read_traces(ops(), files);
      FAIL() << part;
    } catch (const InputError& e) {
      EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
    }
  }
  const fs::path folder_ = fresh_folder("changed_trace");
};

TEST_F(ChangedTrace, BadFilesAreOneSentenceWithFileAndLine) {
  const std::string lines = (folder_ / "rmsnorm_h4096.jsonl").string();
  refused(changed(".json", "\"op_type\"", "\"op\""), "rmsnorm_h4096.json': 'op_type' is missing");
  refused(changed(".json", "\"const\"", "\"fixed\""), "the axis 'hidden_size' has the type 'fixed'");
  refused(changed(".json", "{", "["), "this is not JSON");
  refused(changed(".jsonl", "\"uuid\"", "\"id\""), lines + ":1: 'uuid' is missing");
  refused(changed(".jsonl", "\"batch_size\": 32", "\"batch_size\": -1"),
          lines + ":2: the axis 'batch_size' is -1");
  refused(changed(".jsonl", "\"batch_size\": 32", "\"rows\": 32"),
          lines + ":2: 'rmsnorm_h4096' has no axis 'rows'");
  refused(changed(".jsonl", "\"definition\": \"rms", "\"definition\": \"other_rms"),
          "no file of the definition");
  refused({kData / "rmsnorm_h4096.json"}, "the files have no workload");
  refused({kData / "none.json"}, "none.json");
}

TEST_F(ChangedTrace, OtherOpTypesAndDtypesAreLeftOut) {
  refused(changed(".json", "\"bfloat16\"", "\"float8_e4m3fn\""), "no workload is a problem here");
  auto files = changed(".json", "rmsnorm", "mla_paged");
  std::ofstream(files[1]) << "{\"uuid\": \"u\", \"axes\": {\"batch_size\": 1}, \"inputs\": {}}\n";
  refused(files, "op type 'mla_paged'");
  const auto good = files_of({"gemm_n6144_k4096"});
  files.insert(files.end(), good.begin(), good.end());
  std::ofstream(files[1]) << "{\"definition\": \"mla_paged_h4096\", \"workload\": {\"uuid\": \"u\", "
                             "\"axes\": {\"batch_size\": 1}, \"inputs\": {}}}\n";
  const Traces traces = read_traces(ops(), files);
  EXPECT_EQ(traces.workloads.size(), 2u);
  EXPECT_EQ(traces.left_out.size(), 1u);
}

/// A GEMM on quantized weights is not a plain one.
TEST_F(ChangedTrace, QuantizedWeightsAreLeftOut) {
  const auto gemm = [&](const std::function<void(json&)>& change) {
    const fs::path folder = fresh_folder("quantized_trace");
    json definition = json::parse(text_of(kData / "gemm_n6144_k4096.json"));
    change(definition["inputs"]);
    std::ofstream(folder / "gemm_n6144_k4096.json") << definition;
    fs::copy(kData / "gemm_n6144_k4096.jsonl", folder);
    return std::vector{folder / "gemm_n6144_k4096.json", folder / "gemm_n6144_k4096.jsonl"};
  };
  EXPECT_EQ(read_traces(ops(), gemm([](json&) {})).workloads.size(), 2u);
  refused(gemm([](json& inputs) { inputs["B"]["dtype"] = "float8_e4m3fn"; }),
          "the dtype 'float8_e4m3fn' of 'B' has no op here");
  refused(gemm([](json& inputs) { inputs["B"]["dtype"] = "int8"; }),
          "the dtype 'int8' of 'B' has no op here");
  refused(gemm([](json& inputs) { inputs["B"]["dtype"] = "float32"; }), "'A' and 'B' have different dtypes");
  refused(gemm([](json& inputs) { inputs["B_scale"] = inputs["B"]; }),
          "it has the input 'B_scale', which no op here takes as it lies");
}

TEST_F(ChangedTrace, ALineWithoutADefinitionTakesTheOneOfItsFile) {
  auto files = changed(".none", "", "");
  std::ofstream(files[1]) << "{\"uuid\": \"u\", \"axes\": {\"batch_size\": 7}, \"inputs\": {}}\n\n";
  EXPECT_EQ(read_traces(ops(), files).workloads.at(0).problem["tokens"], 7);
}

TEST(ImportTrace, TheSweepHasEachProblemOnce) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(kData))
    if (!entry.path().filename().string().starts_with("vector_add")) files.push_back(entry.path());
  std::ranges::sort(files);
  std::string arguments;
  for (const fs::path& file : files) arguments += " " + file.string();
  const fs::path sweep = fresh_folder("import_trace") / "trace.yaml";
  const auto imported = testing::run_shell("{} import-trace" + arguments + " -o " + sweep.string());
  EXPECT_EQ(imported.code, 0) << imported.text;
  EXPECT_EQ(imported.text, "");
  const std::string text = text_of(sweep);
  EXPECT_EQ(std::ranges::count(text, '{'), 8) << text;
  const auto planned = testing::run_shell("{} tune " + sweep.string() + " --device host --dry-run --out " +
                                          sweep.parent_path().string());
  EXPECT_EQ(planned.code, 0) << planned.text << text;
}

/// The rows that a GPU would give for the workloads of rmsnorm_h4096.
fs::path rows(const std::string& name,
              const std::vector<std::pair<std::string, std::string>>& tokens_and_us) {
  std::vector<testing::Fields> list;
  for (const auto& [tokens, us] : tokens_and_us)
    list.push_back(sweep_fields({{"op", "rms_norm"},
                                 {"timestamp_utc", "2026-01-02T03:04:05Z"},
                                 {"device", "NVIDIA H200"},
                                 {"problem", "rms_norm[tokens=" + tokens + ",hidden=4096,dtype=bf16]"},
                                 {"variant", "vectorized"},
                                 {"config", "block=256,rows=1,vec=8,cache_hint=none,pdl=0"},
                                 {"time_us", us},
                                 {"max_abs_err", "0.25"}}));
  return testing::write_sweep(name, list);
}

TEST(ExportTrace, WritesATracePerWorkloadAndASolutionPerKernel) {
  if (!find_op("rms_norm").find_variant("vectorized")) GTEST_SKIP() << "a build without CUDA has no kernels";
  const Traces traces = read_traces(ops(), files_of({"rmsnorm_h4096"}));
  const auto exported =
      export_traces(ops(), KernelSources(), traces, rows("export.csv", {{"1", "2.5"}, {"1", "2"}}));
  EXPECT_EQ(exported.traces, 2u) << "two workloads of one token";
  EXPECT_EQ(exported.solutions, 1u);
  ASSERT_EQ(exported.left_out.size(), 1u) << "nothing was timed with 32";
  EXPECT_NE(exported.left_out[0].find("tokens=32"), std::string::npos);

  const std::string lines = exported.files.at("traces/rmsnorm/rmsnorm_h4096.jsonl");
  EXPECT_EQ(std::ranges::count(lines, '\n'), 2);
  const json trace = json::parse(lines.substr(0, lines.find('\n')));
  EXPECT_EQ(trace["workload"]["uuid"], "00000000-0000-4000-8000-000000000001");
  EXPECT_EQ(trace["evaluation"]["status"], "PASSED");
  EXPECT_EQ(trace["evaluation"]["performance"]["latency_ms"], 0.002);
  EXPECT_EQ(trace["evaluation"]["correctness"]["max_absolute_error"], 0.25);
  EXPECT_EQ(trace["evaluation"]["environment"]["hardware"], "NVIDIA_H200");

  const std::string name = trace["solution"];
  const json solution = json::parse(exported.files.at("solutions/rmsnorm/rmsnorm_h4096/" + name + ".json"));
  EXPECT_EQ(solution["name"], name);
  EXPECT_EQ(solution["definition"], "rmsnorm_h4096");
  EXPECT_NE(solution["description"].get<std::string>().find("block=256"), std::string::npos);
  const std::string entry = solution["spec"]["entry_point"], file = entry.substr(0, entry.find("::"));
  EXPECT_TRUE(std::ranges::any_of(solution["sources"], [&](const json& source) {
    return source["path"] == file &&
           source["content"].get<std::string>().find("__global__") != std::string::npos;
  })) << entry;
}

TEST(ExportTrace, TheCommandWritesATraceSet) {
  if (!find_op("rms_norm").find_variant("vectorized")) GTEST_SKIP() << "a build without CUDA has no kernels";
  const fs::path out = fresh_folder("export_trace");
  const std::string files =
      (kData / "rmsnorm_h4096.json").string() + " " + (kData / "rmsnorm_h4096.jsonl").string();
  const std::string csv = rows("export_command.csv", {{"1", "2"}, {"32", "3"}}).string();
  const auto ended =
      testing::run_shell("{} export-trace " + files + " --results " + csv + " -o " + out.string());
  EXPECT_EQ(ended.code, 0) << ended.text;
  EXPECT_NE(ended.text.find("3 traces and"), std::string::npos) << ended.text;
  EXPECT_TRUE(fs::exists(out / "traces" / "rmsnorm" / "rmsnorm_h4096.jsonl"));
  const std::string none = rows("export_none.csv", {{"5", "2"}}).string();
  EXPECT_EQ(
      testing::run_shell("{} export-trace " + files + " --results " + none + " -o " + out.string()).code, 2);
}

}  // namespace
}  // namespace warptune
