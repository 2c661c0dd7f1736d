// The program from outside, on the host device.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>

#include "harness/results/csv.h"
#include "harness/results/wisdom.h"
#include "tests/program.h"

namespace warptune {
namespace {
namespace fs = std::filesystem;

using testing::Ended;
using testing::run;

std::string sweep_file() {
  const auto path = fs::path(::testing::TempDir()) / "cli.yaml";
  std::ofstream(path)
      << "sampling: {min_samples: 6, max_time: 0.01}\nother_caches: true\nops:\n  - op: rms_norm\n"
         "    dtypes: fp32\n    problems: [{tokens: 2, hidden: [8, 33]}]\n";
  return path.string();
}

TEST(Cli, TuneWritesRowsAndWinners) {
  const fs::path out = fs::path(::testing::TempDir()) / "cli_out";
  fs::remove_all(out);
  const Ended result = run("tune " + sweep_file() + " --device host --out " + out.string());
  EXPECT_EQ(result.code, 0) << result.text;
  EXPECT_EQ(result.text.find('\r'), std::string::npos);  // a pipe gets plain lines
  const auto rows = read_csv(out / "host" / "cli.csv");
  ASSERT_GE(rows.size(), 4u);
  for (const auto& row : rows) EXPECT_EQ(row.at("status"), "ok") << row.at("detail");
  EXPECT_EQ(Wisdom::load(out / "host" / "wisdom.json").winners().size(), 2u);
  std::map<std::string, int> finalists;  // by cache state
  for (const auto& row : rows)
    if (row.at("sampling") == "finalist" || row.at("sampling") == "other_cache") ++finalists[row.at("cache")];
  EXPECT_GE(finalists["cold"], 2);
  EXPECT_EQ(finalists["hot"], finalists["cold"]);
  EXPECT_EQ(finalists["isolated"], finalists["cold"]);
}

/// The features of attention work end to end: from YAML to verified rows and winners.
TEST(Cli, TuneVerifiesTheFeaturesOfAttention) {
  const fs::path out = fs::path(::testing::TempDir()) / "features_out", yaml = out.string() + ".yaml";
  fs::remove_all(out);
  std::ofstream(yaml) << R"(sampling: {min_samples: 6, max_time: 0.001}
finalists: 1
max_configs: 2
dtypes: [fp32, bf16]
ops:
  - op: attention_decode
    problems:
      - {batch: 2, q_heads: 4, kv_heads: 2, head_dim: 32, context: 40, uneven: "yes", append: "yes", bias: "yes",
         kv_dtype: int8, kv_scale: token, page_size: 16, window: 20, score_bias: alibi, lse: "yes", epilogue: quantize}
      - {batch: 2, q_heads: 4, kv_heads: 2, head_dim: 32, context: 40, kv_dtype: fp8, k_layout: dsx,
         score_bias: additive, epilogue: smooth}
  - op: attention_prefill
    problems:
      - {batch: 2, q_len: 9, kv_len: 20, q_heads: 4, kv_heads: 2, head_dim: 32, head_dim_v: 16, uneven: "yes",
         page_size: 16, window: 12, score_bias: additive, dropout: 10, lse: "yes"}
      - {batch: 2, q_len: 9, kv_len: 20, q_heads: 4, kv_heads: 2, head_dim: 32, causal: top_left, kv_layout: packed}
)";
  const Ended result = run("tune " + yaml.string() + " --device host --out " + out.string());
  EXPECT_EQ(result.code, 0) << result.text;
  const auto rows = read_csv(out / "host" / (yaml.stem().string() + ".csv"));
  for (const auto& row : rows)
    EXPECT_EQ(row.at("status"), "ok") << row.at("problem") << ": " << row.at("detail");
  EXPECT_EQ(Wisdom::load(out / "host" / "wisdom.json").winners().size(), 8u);
}

TEST(Cli, AHotSweepKeepsColdWinners) {
  const fs::path out = fs::path(::testing::TempDir()) / "hot_out",
                 hot = fs::path(::testing::TempDir()) / "hot.yaml";
  fs::remove_all(out);
  std::ofstream(hot) << "cache: hot\n" << std::ifstream(sweep_file()).rdbuf();
  const std::string options = " --device host --out " + out.string();
  EXPECT_EQ(run("tune " + sweep_file() + options).code, 0);
  const Ended result = run("tune " + hot.string() + options);
  EXPECT_EQ(result.code, 0) << result.text;
  EXPECT_NE(result.text.find("\nthe wisdom keeps the cold winners of 2 problems that this sweep timed hot\n"),
            std::string::npos)
      << result.text;
  const Wisdom wisdom = Wisdom::load(out / "host" / "wisdom.json");
  EXPECT_EQ(wisdom.winners().size(), 2u);
  for (const Winner& winner : wisdom.winners()) EXPECT_EQ(winner.cache, CacheMode::cold);
}

TEST(Cli, AnEmptyOptionIsAnError) {
  const std::string tune = "tune " + sweep_file();
  for (const std::string& line :
       {tune + " --device \"\"", tune + " --out \"\"", tune + " --shard \"\"",
        std::string("calibrate --device \"\""), std::string("decode --preset llama2-7b --csv \"\"")}) {
    const Ended result = run(line);
    EXPECT_EQ(result.code, 2) << line << result.text;
    EXPECT_NE(result.text.find("empty"), std::string::npos) << line << ": " << result.text;
  }
  EXPECT_EQ(run(tune + " --device host --dry-run --filter \"\"").code, 0);
}

TEST(Cli, CalibrateWritesTheDeviceFileThatTuneUses) {
  const fs::path out = fs::path(::testing::TempDir()) / "calibrate_out";
  fs::remove_all(out);
  const Ended result = run("calibrate --device host --out " + out.string());
  EXPECT_EQ(result.code, 0) << result.text;
  EXPECT_NE(result.text.find("write"), std::string::npos) << result.text;
  const auto file = out / "host" / "device.json";
  ASSERT_TRUE(fs::exists(file));
  const auto before = fs::last_write_time(file);
  EXPECT_EQ(run("tune " + sweep_file() + " --device host --filter host_naive --out " + out.string()).code, 0);
  EXPECT_EQ(fs::last_write_time(file), before);
}

TEST(Cli, CalibrateFailsBeforeMeasuringIfItCannotWrite) {
  const fs::path out = fs::path(::testing::TempDir()) / "calibrate_nowhere";
  fs::remove_all(out);
  fs::create_directories(out / "host" / "device.json");  // a folder where the file should be
  const Ended result = run("calibrate --device host --out " + out.string());
  EXPECT_EQ(result.code, 2) << result.text;
  EXPECT_NE(result.text.find("device.json' cannot be written"), std::string::npos) << result.text;
  EXPECT_EQ(result.text.find("GB/s"), std::string::npos) << "it measured: " << result.text;
}

TEST(Cli, InspectWithoutASweepIsBadInput) {
  const fs::path sweep = fs::path(::testing::TempDir()) / "library.yaml";
  std::ofstream(sweep) << "ops:\n  - {op: linear, problems: [{tokens: 1, in: 64, out: 64}]}\n";
  const Ended result = run("inspect " + sweep.string() + " --arch sm_90a --filter cublas");
  EXPECT_EQ(result.code, 2) << result.text;
  EXPECT_NE(result.text.find("--filter 'cublas' "), std::string::npos) << result.text;
}

TEST(Cli, InspectNamesTheRowsThatAnArchitectureExcludes) {
  const fs::path csv = fs::path(::testing::TempDir()) / "rows.csv";
  const std::string problem = "\"rms_norm[tokens=1,hidden=4096,dtype=bf16]\",";
  std::ofstream(csv) << "problem,variant,config\n"
                     << problem << "vectorized,\"block=256,rows=1,vec=8,cache_hint=none,pdl=0\"\n"
                     << problem << "vectorized,\"block=256,rows=1,vec=8,cache_hint=none,pdl=1\"\n"
                     << problem << "vectorised,\"block=256\"\n"
                     << problem << "vectorized,\"block=256\"\n";
  const Ended old = run("inspect --rows " + csv.string() + " --arch sm_80");
  EXPECT_EQ(old.code, 1) << old.text;
  EXPECT_EQ(old.text.find(csv.string() + ":2: "), std::string::npos) << old.text;
  for (const char* line :
       {":3: rms_norm[tokens=1,hidden=4096,dtype=bf16] vectorized: constraint ",
        ":4: rms_norm[tokens=1,hidden=4096,dtype=bf16] vectorised: ",
        ":5: rms_norm[tokens=1,hidden=4096,dtype=bf16] vectorized: variant 'vectorized' needs "})
    EXPECT_NE(old.text.find(csv.string() + line), std::string::npos) << line << " is not in\n" << old.text;
  EXPECT_NE(old.text.find("3 of 4 rows are excluded on sm_80"), std::string::npos) << old.text;
  const Ended hopper = run("inspect --rows " + csv.string() + " --arch sm_90a");
  EXPECT_NE(hopper.text.find("2 of 4 rows are excluded on sm_90a"), std::string::npos) << hopper.text;

  std::ofstream(csv) << "problem,config\n";
  const Ended bad = run("inspect --rows " + csv.string() + " --arch sm_80");
  EXPECT_EQ(bad.code, 2) << bad.text;
  EXPECT_NE(bad.text.find(csv.string() + ":1: there is no column 'variant'"), std::string::npos) << bad.text;
}

#if WARPTUNE_HAS_CUDA
TEST(Cli, InspectTakesSomeConfigurationsOfAVariant) {
  const fs::path sweep = fs::path(::testing::TempDir()) / "per_variant.yaml",
                 csv = fs::path(::testing::TempDir()) / "per_variant.csv";
  std::ofstream(sweep)
      << "dtypes: fp32\nops:\n  - op: rms_norm\n    problems: [{tokens: [1, 2, 3], hidden: 64}]\n"
         "    variants: [naive: {parameters: {block: [32, 64, 128]}}]\n";
  const auto inspected = [&](const std::string& options) {
    fs::remove(csv);
    const Ended result = run("inspect " + sweep.string() + " --arch sm_80 --csv " + csv.string() + options);
    EXPECT_EQ(result.code, 0) << result.text;
    std::vector<std::string> rows;
    for (const auto& row : read_csv(csv)) rows.push_back(row.at("problem") + row.at("config"));
    return rows;
  };
  const auto all = inspected("");
  ASSERT_EQ(all.size(), 9u);
  EXPECT_EQ(inspected(" --per-variant 1"), std::vector{all[4]});
  EXPECT_EQ(inspected(" --per-variant 3"), (std::vector{all[2], all[5], all[8]}));
  EXPECT_EQ(inspected(" --per-variant 99"), all);
}

TEST(Cli, InspectWritesLaunches) {
  const fs::path sweep = fs::path(::testing::TempDir()) / "launches.yaml",
                 csv = fs::path(::testing::TempDir()) / "launches.csv";
  std::ofstream(sweep)
      << "dtypes: bf16\nops:\n  - op: linear\n    problems: [{tokens: 1, in: 1024, out: 1024}]\n"
         "    variants: [gemv_bulk_copy: {parameters: {blocks_per_sm: 2, warps: 4, rows: 1, "
         "tile_k: 1024, stages: 4, stagger: 0, pdl: 0}}]\n";
  fs::remove(csv);
  const Ended result = run("inspect " + sweep.string() + " --arch sm_90a --csv " + csv.string());
  ASSERT_EQ(result.code, 0) << result.text;
  const auto rows = read_csv(csv);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_TRUE(
      rows[0].at("kernel").starts_with("linear/gemv_bulk_copy.cu: linear_gemv_bulk_copy<warptune::bf16, "))
      << rows[0].at("kernel");
  EXPECT_EQ(rows[0].at("grid"), "264x1x1");  // two blocks on each of the 132 SMs
  EXPECT_EQ(rows[0].at("block"), "128x1x1");
  EXPECT_EQ(rows[0].at("dynamic_bytes"), std::to_string(4 * 4 * 1024 * 2 + 1024 * 2 + 8 * 4 * 4));
}
#endif

TEST(Cli, IdleThreadsSleepUnlessConfigured) {
  if (testing::kThreadSanitized) GTEST_SKIP() << "this build has no OpenMP";
  const auto waits = [](const std::string& environment) {
    const Ended ended =
        testing::run_shell("env -u GOMP_SPINCOUNT " + environment + " OMP_DISPLAY_ENV=verbose {} --version");
    EXPECT_EQ(ended.code, 0) << ended.text;
    return ended.text.find("GOMP_SPINCOUNT = '0'") != std::string::npos;
  };
  EXPECT_TRUE(waits("-u OMP_WAIT_POLICY"));
  EXPECT_FALSE(waits("OMP_WAIT_POLICY=active"));
}

TEST(Cli, DryRunCountsOnly) {
  const Ended result = run("tune " + sweep_file() + " --device host --dry-run --filter host_naive");
  EXPECT_EQ(result.code, 0) << result.text;
  EXPECT_NE(result.text.find("rms_norm/host_naive"), std::string::npos);
  EXPECT_EQ(result.text.find("host_threaded"), std::string::npos);
}

TEST(Cli, DryRunNamesAProblemWithoutAConfiguration) {
  const fs::path sweep = fs::path(::testing::TempDir()) / "one_empty.yaml";
  std::ofstream(sweep) << "ops:\n  - op: rms_norm\n    problems: [{tokens: [1, 64], hidden: 64}]\n"
                          "    variants:\n      - host_threaded: {constraints: [\"tokens < 8\"]}\n";
  const Ended one = run("tune " + sweep.string() + " --device host --dry-run");
  EXPECT_EQ(one.code, 0) << one.text;
  EXPECT_NE(one.text.find("a problem has no configuration: "), std::string::npos) << one.text;
  EXPECT_NE(one.text.find("rms_norm[tokens=64,hidden=64"), std::string::npos) << one.text;
  EXPECT_NE(one.text.find("'tokens < 8'"), std::string::npos) << one.text;
}

TEST(Cli, DryRunEstimatesWithinATimeBudget) {
  const fs::path yaml = fs::path(::testing::TempDir()) / "budget.yaml";
  std::ofstream(yaml)
      << "strategy: {name: random, budget: 0.25s}\nops:\n  - op: rms_norm\n    dtypes: fp32\n"
         "    problems: [{tokens: [1, 2, 4, 8], hidden: 64}]\n    variants: [host_threaded]\n";
  const Ended result =
      run("tune " + yaml.string() + " --device host --dry-run --out " + ::testing::TempDir() + "nothing");
  EXPECT_EQ(result.code, 0) << result.text;
  EXPECT_NE(result.text.find("estimated time: about 00:01 (0.25 s per problem)"), std::string::npos)
      << result.text;
}

TEST(Cli, ConstraintRowsNameTheConstraint) {
  const fs::path yaml = fs::path(::testing::TempDir()) / "excluded.yaml",
                 out = fs::path(::testing::TempDir()) / "excluded_out";
  fs::remove_all(out);
  std::ofstream(yaml)
      << "constraint_rows: true\nsampling: {min_samples: 6, max_time: 0.01}\nops:\n"
         "  - op: rms_norm\n    dtypes: fp32\n    problems: [{tokens: 2, hidden: 8}]\n"
         "    variants:\n"
         "      - host_threaded: {parameters: {threads: [1, 2]}, constraints: [threads < 2]}\n";
  const Ended result = run("tune " + yaml.string() + " --device host --out " + out.string());
  EXPECT_EQ(result.code, 0) << result.text;
  std::vector<std::string> rows;
  for (const auto& row : read_csv(out / "host" / "excluded.csv"))
    if (!row.at("detail").starts_with("finalist"))  // the detail of an ok row is a note on its sampling
      rows.push_back(row.at("config") + " " + row.at("status") +
                     (row.at("status") == "ok" ? "" : " " + row.at("detail")));
  EXPECT_EQ(rows, (std::vector<std::string>{"threads=2 constraint threads < 2", "threads=1 ok"}));
}

TEST(Cli, HelpIsNoError) {
  EXPECT_EQ(run("--help").code, 0);
  EXPECT_EQ(run("tune --help").code, 0);
}

/// Expects exit code 2 and one sentence on stderr that begins with the program's name and contains `part`.
void expect_bad_input(const std::string& arguments, const std::string& part) {
  const Ended result = run(arguments, "2>&1 >/dev/null");
  EXPECT_EQ(result.code, 2) << arguments;
  std::string sentences;
  std::istringstream lines(result.text);
  for (std::string line; std::getline(lines, line);)
    if (!line.starts_with("note: ")) sentences += line + "\n";
  EXPECT_TRUE(sentences.starts_with("warptune: ")) << arguments << "\n" << result.text;
  EXPECT_EQ(std::ranges::count(sentences, '\n'), 1) << result.text;
  EXPECT_NE(sentences.find(part), std::string::npos) << result.text;
}

TEST(Cli, AFullStdoutIsAnError) { EXPECT_EQ(run("list ops", "> /dev/full 2> /dev/null").code, 1); }

TEST(Cli, BadInputIsOneSentence) {
  const std::string sweep = sweep_file(), golden = std::string(TEST_DATA) + "/golden/gqa";
  const fs::path bad = fs::path(TEST_DATA) / "bad_yaml" / "unknown_key.yaml";
  expect_bad_input("--no-such-flag", "'warptune' has no option '--no-such-flag'");
  expect_bad_input("tune " + sweep + " --no-such-flag", "--no-such-flag");
  expect_bad_input("", "subcommand");
  expect_bad_input("tune " + bad.string() + " --device host", bad.string() + ":2: unknown key 'dtype'");
  expect_bad_input("tune /no/such.yaml", "/no/such.yaml:1: the file cannot be read");
  expect_bad_input("tune " + ::testing::TempDir(), "the file cannot be read");
  expect_bad_input("tune " + sweep + " --device cuda:99", "cuda:99");
  expect_bad_input("tune " + sweep + " --device host --out /proc/no", "'/proc/no/host' cannot be made");
  expect_bad_input("tune " + sweep + " --device host --filter linear/", "--filter 'linear/'");
  for (const char* name : {"../evil", "regress.2", "x.samples", "decode", "my_peers"})
    expect_bad_input(std::string("rerun wisdom.json --name ") + name, "cannot name the CSV");
  expect_bad_input("compare a.csv b.csv --alpha nan", "'nan' is not a number from 1e-09 to 0.5");
  expect_bad_input("list variants no_such_op", "no_such_op");
  expect_bad_input("inspect " + sweep + " --arch sm_12", "unknown architecture 'sm_12'");
  expect_bad_input("decode", "--model DIR or --preset NAME");
  expect_bad_input("decode --preset llama9", "unknown model 'llama9'; the presets are llama2-7b");
  expect_bad_input("decode --model /no/such", "/no/such/config.json cannot be read");
  const std::string decode = "decode --device host --out " + ::testing::TempDir() + " --model " + golden;
  expect_bad_input(decode + " --check /no/golden", "/no/golden cannot be read");
  expect_bad_input(decode + " --wisdom /no/wisdom.json", "'/no/wisdom.json' cannot be read");
  expect_bad_input(decode + " --csv /proc/no/decode.csv", "'/proc/no' cannot be made");
}

TEST(Cli, AMissingTensorIsNamed) {
  const fs::path from = fs::path(TEST_DATA) / "golden" / "gqa",
                 to = fs::path(::testing::TempDir()) / "missing";
  fs::remove_all(to);
  fs::copy(from, to);
  std::string bytes;
  {
    std::ifstream in(from / "model.safetensors", std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(in), {});
  }
  const std::string name = "model.layers.0.self_attn.k_proj.weight";
  bytes[bytes.find(name)] = 'n';
  fs::remove(to / "model.safetensors");
  std::ofstream(to / "model.safetensors", std::ios::binary) << bytes;
  expect_bad_input("decode --device host --out " + ::testing::TempDir() + " --model " + to.string(),
                   "tensor '" + name + "' is missing");
}

TEST(Cli, ListsAndDevices) {
  EXPECT_NE(run("list ops").text.find("rms_norm"), std::string::npos);
  EXPECT_NE(run("list variants rms_norm").text.find("rms_norm/vectorized"), std::string::npos);
  EXPECT_NE(run("list parameters rms_norm").text.find("block"), std::string::npos);
  EXPECT_NE(run("devices").text.find("host"), std::string::npos);
}

}  // namespace
}  // namespace warptune
