// The A100 kit: its whole path runs on the host, and its device check says what to do.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

#include "harness/core/space.h"
#include "harness/llama/model_problems.h"
#include "harness/tune/sweep.h"
#include "tests/files.h"
#include "tests/program.h"
#include "variants/table.h"

namespace warptune {
namespace {

namespace fs = std::filesystem;
using testing::run_shell;

const std::string kScript = std::string(SOURCE_ROOT) + "/scripts/a100.sh";
const std::string kPredict = "WARPTUNE={} python3 " + std::string(SOURCE_ROOT) + "/scripts/predict_a100.py";
const std::string kResults = std::string(SOURCE_ROOT) + "/results";

void write_program(const fs::path& path, const std::string& body) {
  std::ofstream(path) << "#!/usr/bin/env bash\n" << body;
  fs::permissions(path, fs::perms::owner_all);
}

/// The script on a sweep of a small model, which decodes it.
std::string trial(const fs::path& folder, const std::string& program) {
  const std::string model = std::string(SOURCE_ROOT) + "/tests/data/golden/gqa";
  std::ofstream(folder / "sweep.yaml")
      << "device: host\ndtypes: fp32\nsampling: {min_samples: 6, max_time: 0.002}\nfinalists: 2\nmodels:\n"
      << "  - {model: " << model << ", batch: [1, 2], context: 64, weights: &weights [same, int8]"
      << ", cache: hot, max_configs: 1}\n"
      << "  - {model: " << model
      << ", batch: [1, 2], prompt_len: 4, weights: *weights, cache: hot, max_configs: 1}\n"
      << "steps:\n  - {model: " << model << ", batch: [1, 2], context: 64, weights: *weights}\n";
  fs::create_directories(folder / "giant");
  std::ofstream(folder / "giant/config.json")
      << R"({"model_type": "llama", "hidden_size": 8192, "intermediate_size": 28672, "num_hidden_layers": 1000,)"
         R"("num_attention_heads": 64, "vocab_size": 32000, "rms_norm_eps": 1e-5})";
  return "DEVICE=host CONFIG=" + (folder / "sweep.yaml").string() + " MODELS='" + model + " " +
         (folder / "giant").string() +
         "' WEIGHTS='same int8' BATCHES='1 2' PROMPT_LEN=4 STEPS=2 CHECK_STEPS=2 WARPTUNE=" + program + " " +
         kScript + " --out " + (folder / "out").string();
}

std::size_t lines_of(const fs::path& path) {
  std::size_t count = 0;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) ++count;
  return count;
}

std::string last_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

TEST(A100, TheWholePathEndsWithAnArchiveAndRunsAgain) {
  const fs::path folder = testing::fresh_folder("a100");
  const auto first = run_shell(trial(folder, "{}"));
  ASSERT_EQ(first.code, 0) << first.text;
  const auto packed = run_shell("tar -tzf " + last_line(first.text));
  ASSERT_EQ(packed.code, 0) << packed.text << first.text;
  for (const char* name :
       {"out/facts.txt", "out/report.html", "out/host/sweep.csv", "out/host/wisdom.json",
        "out/host/device.json", "out/host/decode.csv", "out/logs/tune.log", "out/logs/device.log"})
    EXPECT_NE(packed.text.find(name), std::string::npos) << name << " is not in\n" << packed.text;
  const auto decode = read_csv(folder / "out/host/decode.csv");
  ASSERT_EQ(decode.size(), 4u) << first.text;
  for (const auto& row : decode)
    EXPECT_EQ(row.at("check"), row.at("batch") == "1" ? "pass" : "pass-steps") << row.at("plan_set");
  for (std::size_t i = 0; i < decode.size(); ++i)
    EXPECT_EQ(decode[i].at("plan_set"), i % 2 == 0 ? "step" : "step+weights=int8")
        << "batch " << decode[i].at("batch");
  EXPECT_NE(first.text.find("the run is left out: giant needs "), std::string::npos) << first.text;
  const std::size_t rows = lines_of(folder / "out/host/sweep.csv");

  const auto second = run_shell(trial(folder, "{}"));
  ASSERT_EQ(second.code, 0) << second.text;
  EXPECT_EQ(lines_of(folder / "out/host/sweep.csv"), rows) << "what has a row is not measured again";
}

/// The default of a variable of the script: the words after "NAME:-".
std::vector<std::string> default_of(const std::string& script, const std::string& name) {
  const auto at = script.find("${" + name + ":-");
  EXPECT_NE(at, std::string::npos) << name;
  std::istringstream words(script.substr(at + name.size() + 4, script.find('}', at) - at - name.size() - 4));
  return {std::istream_iterator<std::string>(words), {}};
}

TEST(A100, TheShippedSweepTunesEveryProblemOfTheRunsThatFollow) {
  const Sweep sweep = load_sweep(ops(), std::string(SOURCE_ROOT) + "/configs/a100.yaml");
  std::set<std::string> tuned;
  for (const SweepItem& item : sweep.items) tuned.insert(item.problem.key());
  for (const StepItem& item : sweep.steps) tuned.insert(step_problem(item.spec).key());
  const std::string script = testing::text_of(kScript);
  const std::int64_t prompt = std::stoi(default_of(script, "PROMPT_LEN").at(0)),
                     steps = std::stoi(default_of(script, "STEPS").at(0)),
                     checked = std::stoi(default_of(script, "CHECK_STEPS").at(0)), lengths[] = {prompt};
  std::vector<std::int64_t> contexts;
  for (std::int64_t context = prompt + 1; context <= prompt + std::max(steps, checked); ++context)
    contexts.push_back(context);
  const DType dtype = default_dtype(Backend::cuda);
  std::size_t problems = 0;
  for (const std::string& model : default_of(script, "MODELS"))
    for (const std::string& weights : default_of(script, "WEIGHTS"))
      for (const std::string& batch : default_of(script, "BATCHES")) {
        const ModelConfig config =
            weights == "same" ? preset(model) : in_format(preset(model), parse_weight_format(weights));
        const int sequences = std::stoi(batch);
        std::vector<Problem> needed = decode_problems(ops(), config, dtype, sequences, contexts);
        std::ranges::move(prefill_problems(ops(), config, dtype, sequences, lengths),
                          std::back_inserter(needed));
        needed.push_back(step_problem(config, dtype, sequences, contexts.back(), {}));
        for (const Problem& problem : needed) EXPECT_TRUE(tuned.contains(problem.key())) << problem.key();
        problems += needed.size();
      }
  EXPECT_GT(problems, 300u);
  EXPECT_EQ(sweep.steps.size(), 12u);
}

TEST(A100, TheBudgetIsThatOfTheSweep) {
  const fs::path folder = testing::fresh_folder("a100_budget");
  fs::create_directories(folder / "out/host");
  std::ofstream(folder / "out/host/wisdom.json") << R"({"schema":2,"device":"host","winners":[]})";
  std::ofstream(folder / "out/host/device.json") << R"({"name":"host"})";
  write_program(folder / "program", "[ \"$1\" = tune ] && echo \"$*\"\nexit 0\n");
  const auto run = run_shell(trial(folder, (folder / "program").string()) + " --budget 1s");
  EXPECT_EQ(run.code, 0) << run.text;
  EXPECT_NE(run.text.find(" --budget 1s"), std::string::npos) << run.text;
  EXPECT_TRUE(fs::is_regular_file(last_line(run.text))) << run.text;
}

TEST(A100, ARehearsalIsOneOfEveryCommand) {
  const fs::path folder = testing::fresh_folder("a100_as");
  fs::create_directories(folder / "out/h100-as-sm_80");
  for (const char* name : {"wisdom.json", "device.json", "decode.csv"})
    std::ofstream(folder / "out/h100-as-sm_80" / name) << "{}";
  fs::create_directories(folder / "out/h100");
  std::ofstream(folder / "out/h100/wisdom.json") << "{}";  // newer, and the GPU's own
  write_program(folder / "program", "echo \"ran $*\"\n");
  const auto run = run_shell(trial(folder, (folder / "program").string()) + " --as sm_80 --record " +
                             (folder / "results").string());
  EXPECT_EQ(run.code, 0) << run.text;
  for (const char* command : {"ran calibrate --device host --as sm_80 ", "ran tune ", "ran decode "}) {
    const auto at = run.text.find(command);
    ASSERT_NE(at, std::string::npos) << command << " is not in\n" << run.text;
    const std::string line = run.text.substr(at, run.text.find('\n', at) - at);
    EXPECT_NE(line.find(" --as sm_80 "), std::string::npos) << line;
  }
  EXPECT_NE(run.text.find("/h100-as-sm_80/wisdom.json -v"), std::string::npos) << run.text;
  EXPECT_EQ(run.text.find("a100: compare"), std::string::npos) << "the prediction is of an A100";
  for (const char* name : {"wisdom.json", "device.json", "decode.csv"})
    EXPECT_TRUE(fs::exists(folder / "results/h100-as-sm_80" / name)) << name;
  EXPECT_NE(last_line(run.text).find("warptune-h100-as-sm_80-"), std::string::npos) << run.text;
}

TEST(A100, AFailedCheckIsReportedAndPacked) {
  const fs::path folder = testing::fresh_folder("a100_failed");
  fs::create_directories(folder / "out/host");
  std::ofstream(folder / "out/host/wisdom.json") << R"({"schema":2,"device":"host","winners":[]})";
  std::ofstream(folder / "out/host/device.json") << R"({"name":"host"})";
  write_program(folder / "program", "[ \"$1\" = decode ] && exit 1\nexit 0\n");
  const auto run = run_shell(trial(folder, (folder / "program").string()));
  EXPECT_EQ(run.code, 1) << run.text;
  EXPECT_NE(run.text.find("golden/gqa at batch 1 failed ("), std::string::npos) << run.text;
  EXPECT_TRUE(fs::is_regular_file(last_line(run.text))) << run.text;
}

TEST(A100, EachFindingSaysWhatToDo) {
  const fs::path folder = testing::fresh_folder("a100_check");
  const auto check = [&](const std::string& values) {
    write_program(folder / "nvidia-smi", "case $1 in\n" + values + "esac\n");
    return run_shell("PATH=" + folder.string() + ":$PATH DEVICE=cuda:3 " + kScript + " --check-only");
  };
  const auto good = check(
      "*=name,*) echo 'NVIDIA A100-SXM4-80GB, 550.54' ;;\n*clocks*) echo '210, 1410, 1593, 1593' ;;\n"
      "*power*) echo '400.00, 400.00' ;;\n*mig*) echo 'Disabled, Enabled, Enabled' ;;\n");
  EXPECT_EQ(good.code, 0) << good.text;
  EXPECT_EQ(good.text.find("!!"), std::string::npos) << good.text;
  EXPECT_NE(good.text.find("ok  name: NVIDIA A100-SXM4-80GB, driver 550.54"), std::string::npos) << good.text;
  EXPECT_NE(good.text.find("SM 210 of at most 1410 MHz, memory 1593 of at most 1593 MHz"), std::string::npos);

  const auto bad = check(
      "*=name,*) echo 'NVIDIA H100, 550.54' ;;\n*clocks*) echo '210, 1410, 1593, 1593' ;;\n"
      "*power*) echo '250.00, 400.00' ;;\n*mig*) echo 'Enabled, Disabled, Disabled' ;;\n"
      "*apps*) echo '17, python' ;;\n");
  EXPECT_EQ(bad.code, 0) << bad.text;
  for (const char* finding :
       {"!!  name: NVIDIA H100; this kit is for an A100", "'sudo nvidia-smi -i 3 -pl 400' restores it",
        "'sudo nvidia-smi -i 3 -mig 0' ends it", "'sudo nvidia-smi -i 3 -e 1' and a reboot",
        "'sudo nvidia-smi -i 3 -pm 1' keeps it loaded", "others compute on it: 17, python;"})
    EXPECT_NE(bad.text.find(finding), std::string::npos) << finding << " is not in\n" << bad.text;
}

TEST(A100, BadOptionsAreBadInput) {
  for (const char* given :
       {"--budget soon", "--budget 90", "--bugdet 1h", "--budget", "--out", "--as", "--record"}) {
    const auto run = run_shell(kScript + " " + given);
    EXPECT_EQ(run.code, 2) << given;
    EXPECT_EQ(run.text.find("a100: "), 0u) << run.text;
  }
  const auto weights = run_shell("WEIGHTS='same int5' " + kScript);
  EXPECT_EQ(weights.code, 2) << "before anything is tuned";
  EXPECT_EQ(weights.text.find("a100: WEIGHTS has 'int5'; it is same, int8, "), 0u) << weights.text;
}

TEST(A100, RelativePathsAreThoseOfTheCaller) {
  const fs::path folder = testing::fresh_folder("a100_relative");
  write_program(folder / "program", "exit 0\n");
  const auto run = run_shell("cd " + folder.string() +
                             " && DEVICE=host CONFIG=mine.yaml WARPTUNE=./program " + kScript + " --out out");
  EXPECT_EQ(run.code, 2) << run.text;
  EXPECT_NE(run.text.find("there is no sweep '" + (folder / "mine.yaml").string() + "'"), std::string::npos)
      << run.text;
}

TEST(PredictA100, TheRecordedPredictionIsThatOfTheRecordedRows) {
  const auto run = run_shell(kPredict + " --check");
  EXPECT_EQ(run.code, 0) << run.text;
}

TEST(PredictA100, EachRowIsAConfigurationThatSm80Takes) {
  const DeviceFacts a100 = known_device("sm_80");
  std::size_t checked = 0;
  for (const auto& row : read_csv(kResults + "/a100/predicted.csv")) {
    const std::string& key = row.at("problem");
    const std::size_t begin = key.find('[') + 1, dtype = key.rfind(",dtype=");
    const OpEntry& entry = ops().find(key.substr(0, begin - 1));
    const Problem problem = entry.op.problem(parse_pairs(key.substr(begin, dtype - begin)),
                                             parse_dtype(key.substr(dtype + 7, key.size() - dtype - 8)));
    const Variant* variant = entry.find_variant(row.at("variant"));
    if (!variant) continue;  // cuBLASLt, where the program was built without it
    const Config config = parse_config(*variant, row.at("config"));
    EXPECT_EQ(Space(*variant, problem, a100).why_excluded(config), "")
        << key << " " << variant->name << " " << row.at("config");
    ++checked;
  }
  EXPECT_GT(checked, 400u);
}

TEST(PredictA100, ARowThatSm80RefusesFailsTheCheck) {
  const fs::path folder = testing::fresh_folder("predict_refused");
  std::string rows = testing::text_of(kResults + "/a100/predicted.csv");
  const auto at = rows.find("grid_blocks=216,");
  ASSERT_NE(at, std::string::npos);
  rows.replace(at, 16, "grid_blocks=264,");
  std::ofstream(folder / "predicted.csv") << rows;
  const auto run =
      run_shell(kPredict + " --check --page '' --predicted " + (folder / "predicted.csv").string());
  EXPECT_EQ(run.code, 1) << run.text;
  EXPECT_NE(run.text.find("sm_80 refuses 1 row of "), std::string::npos) << run.text;
  EXPECT_NE(run.text.find("gemv_cp_async: constraint 'grid_blocks % sms == 0'"), std::string::npos)
      << run.text;
}

TEST(PredictA100, ARehearsalIsASource) {
  const fs::path folder = testing::fresh_folder("predict_rehearsal");
  for (const char* name : {"wisdom.json", "decode.csv", "llama2-7b.csv", "llama3-8b.csv", "attention.csv"})
    fs::copy(kResults + "/h200/" + name, folder);
  std::string facts = testing::text_of(kResults + "/h200/device.json");
  facts.replace(facts.find("sm_90a"), 6, "sm_80");
  std::ofstream(folder / "device.json") << facts;
  const auto run = run_shell(kPredict + " --page '' --results " + folder.string() + " --predicted " +
                             (folder / "predicted.csv").string());
  EXPECT_EQ(run.code, 0) << run.text;
  const auto rows = read_csv(folder / "predicted.csv");
  EXPECT_GT(rows.size(), 50u);
  for (const auto& row : rows)
    EXPECT_NE(row.at("variant"), "cublaslt") << "a peer there, with Hopper's kernels";
}

TEST(PredictA100, TheH100IsPredictedFromTheH200) {
  const auto run = run_shell(kPredict + " --backtest");
  EXPECT_EQ(run.code, 0) << run.text;

  const fs::path folder = testing::fresh_folder("predict_backtest");
  std::ofstream(folder / "slow.csv")
      << "op,problem,variant,config,status,cache,time_us,bytes,flops,registers,shared_bytes\n"
         "top_k,\"top_k[batch=1,vocab=32000,k=50,dtype=bf16]\",vectorized,\"block=256,blocks_per_row=16,pdl="
         "1\","
         "ok,cold,19,64020,32000,28,672\n";
  const auto slow = run_shell(kPredict + " --backtest --backtest-target " + folder.string());
  EXPECT_EQ(slow.code, 1) << slow.text;
  EXPECT_NE(slow.text.find("| all | 1 | 51.3 % | 0 |"), std::string::npos) << slow.text;
}

TEST(PredictA100, ComparesMeasuredWinnersOfTheCard) {
  const fs::path folder = testing::fresh_folder("predict_a100");
  std::ofstream(folder / "predicted.csv")
      << "problem,variant,predicted_40gb_us,predicted_80gb_us\n"
         "\"linear[tokens=1,in=4096,out=4096,bias=no,dtype=bf16]\",gemv,30,20\n";
  std::ofstream(folder / "wisdom.json")
      << R"({"winners":[{"op":"linear","dims":{"tokens":1,"in":4096,"out":4096,"bias":[0,"no"]},"dtype":"fp16",)"
         R"("variant":"gemv_cp_async","time_us":24}]})";
  const auto compared = [&](const std::string& memory) {
    std::ofstream(folder / "device.json") << R"({"name":"NVIDIA A100","memory_bytes":)" + memory + "}";
    return run_shell(kPredict + " --compare " + (folder / "wisdom.json").string() + " --predicted " +
                     (folder / "predicted.csv").string());
  };
  const auto large = compared("85000000000"), small = compared("42000000000");
  EXPECT_EQ(large.code, 0) << large.text;
  EXPECT_NE(large.text.find("1 problems: median ratio 1.20"), std::string::npos) << large.text;
  EXPECT_NE(small.text.find("1 problems: median ratio 0.80"), std::string::npos) << small.text;
}

}  // namespace
}  // namespace warptune
