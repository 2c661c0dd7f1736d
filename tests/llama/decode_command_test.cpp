// `warptune decode` as a user types it, on the host device.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "harness/llama/decode_report.h"
#include "harness/llama/model_problems.h"
#include "harness/llama/safetensors.h"
#include "harness/llama/tuned_dtypes.h"
#include "harness/results/csv.h"
#include "tests/files.h"
#include "tests/llama/small_models.h"
#include "tests/program.h"
#include "variants/table.h"

namespace warptune {
namespace {

namespace fs = std::filesystem;

class DecodeCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("warptune_decode_" + std::to_string(::getpid()) + "_" +
                                           ::testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  /// Runs the program and returns its exit code; its output is in `output_`.
  int run(const std::string& arguments) {
    return program("decode --device host --out " + folder_.string() + " " + arguments);
  }
  int program(const std::string& arguments) {
    const testing::Ended ended = testing::run_shell("{} " + arguments);
    output_ = ended.text;
    return ended.code;
  }
  static std::string golden(const std::string& name) { return std::string(TEST_DATA) + "/golden/" + name; }
  fs::path folder_;
  std::string output_;
};

TEST_F(DecodeCommand, ChecksAGoldenAndAppendsARow) {
  ASSERT_EQ(run("--model " + golden("gqa") + " --check " + golden("gqa") + "/golden.safetensors -v"), 0)
      << output_;
  for (const char* part : {"tokens/s", "share of each op", "sum of the kernels", "byte floor", "ok",
                           "\n  attention_prefill[", "weights: "})
    EXPECT_NE(output_.find(part), std::string::npos) << part;
  const auto rows = read_csv(folder_ / "host" / "decode.csv");
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].at("check"), "pass");
  EXPECT_EQ(rows[0].at("context"), "68");
  EXPECT_EQ(rows[0].size(), decode_columns().size());
}

/// A folder with the config.json of another, and nothing else.
std::string bare(const fs::path& folder, const fs::path& model) {
  const fs::path to = folder / ("bare_" + model.filename().string());
  fs::create_directories(to);
  fs::copy_file(model / "config.json", to / "config.json");
  return to.string();
}

TEST_F(DecodeCommand, RandomWeightsNeedAConfigOnly) {
  const std::string run_of_3 = " --random-weights 3 --prompt-len 5 --steps 2";
  ASSERT_EQ(run("--model " + bare(folder_, golden("gqa")) + run_of_3), 0) << output_;
  EXPECT_NE(output_.find("sequence 0: 3 tokens:"), std::string::npos) << output_;
  const std::string tokens = output_.substr(output_.find("sequence 0"), output_.find("\n\n"));
  ASSERT_EQ(run("--model " + golden("gqa") + run_of_3), 0) << output_;
  EXPECT_NE(output_.find(tokens.substr(0, tokens.find('\n'))), std::string::npos)
      << "weights beside the config are not read\n"
      << output_;
  for (const char* name : testing::kQuantizedGoldens)
    EXPECT_EQ(run("--model " + bare(folder_, fs::path(TEST_DATA) / "quantized" / name) + run_of_3), 0)
        << name << output_;
  EXPECT_EQ(read_csv(folder_ / "host" / "decode.csv").back().at("plan_set"), "default+weights=nvfp4");
}

TEST_F(DecodeCommand, AFailedCheckExitsWithOne) {
  EXPECT_EQ(run("--model " + golden("gqa") + " --check " + golden("mha") + "/golden.safetensors"), 1);
  EXPECT_NE(output_.find("FAILED"), std::string::npos);
}

/// A golden whose embedding of one token is NaN or infinite: the logits of the step that is fed it are not
/// finite.
class BadLogits : public DecodeCommand {
 protected:
  /// The tokens that a run of 8 steps prints.
  std::vector<int> tokens() {
    EXPECT_EQ(run("--model " + golden("gqa") + kRun), 0) << output_;
    std::smatch line;
    EXPECT_TRUE(std::regex_search(output_, line, std::regex("sequence 0: \\d+ tokens:([ \\d]+)"))) << output_;
    std::istringstream in(line[1].str());
    return {std::istream_iterator<int>(in), {}};
  }
  /// Replaces the embedding of a token.
  std::string model_with(int token, float value) {
    const fs::path model = folder_ / "model", file = model / "model.safetensors";
    fs::remove_all(model);
    fs::copy(golden("gqa"), model);
    std::string bytes = testing::text_of(file);
    {
      const SafetensorsFile stored(file);
      const StoredTensor& table = stored.tensors().at("model.embed_tokens.weight");
      EXPECT_EQ(table.dtype, "BF16");
      const auto bits = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16);
      const auto row = static_cast<std::size_t>(table.shape[1]) * sizeof bits;
      const std::string all(reinterpret_cast<const char*>(table.data.data()), table.data.size());
      const std::size_t at = bytes.find(all) + static_cast<std::size_t>(token) * row;
      for (std::size_t i = 0; i < row; i += sizeof bits) std::memcpy(&bytes[at + i], &bits, sizeof bits);
    }
    std::ofstream(file, std::ios::binary) << bytes;
    return model.string();
  }
  static constexpr const char* kRun = " --prompt-len 5 --steps 8";
};

TEST_F(BadLogits, EndTheRunAndNameTheStep) {
  const std::vector<int> fed = tokens();
  ASSERT_GT(fed.size(), 4u);
  const int token = fed[3];
  const auto step = std::ranges::find(fed, token) - fed.begin() + 1;  // the one that is fed it
  const auto rows = read_csv(folder_ / "host" / "decode.csv").size();
  for (const float value : {NAN, -NAN, INFINITY})
    for (const char* options :
         {"", " --fuse-argmax on", " --graph off", " --sampling top_k=1", " --batch 3"}) {
      EXPECT_EQ(run("--model " + model_with(token, value) + kRun + options), 1) << output_;
      EXPECT_NE(output_.find(fmt::format("warptune: the logits of step {} are NaN or infinite (sequence 0); "
                                         "--dump-layers DIR writes the activations of every layer\n",
                                         step)),
                std::string::npos)
          << options << output_;
    }
  EXPECT_EQ(read_csv(folder_ / "host" / "decode.csv").size(), rows) << "a run that fails has no row";
}

TEST_F(BadLogits, OfThePrefillAreNamedSo) {
  std::ofstream(folder_ / "ids.txt") << "5 6 7\n8 9\n";
  EXPECT_EQ(
      run("--model " + model_with(9, NAN) + " --steps 2 --prompt-ids " + (folder_ / "ids.txt").string()), 1);
  EXPECT_NE(output_.find("the logits of the prefill are NaN or infinite (sequence 1)"), std::string::npos)
      << output_;
}

TEST_F(DecodeCommand, SaysWhereTheWisdomHasAnotherDtypeOnly) {
  const ModelConfig config = read_model_config(golden("gqa") + "/config.json");
  Wisdom wisdom(Provenance{.device = "host"});
  const ModelProblems of(ops(), config, DType::fp16);
  for (const Problem& gemm : {of.qkv(4), of.o(4), of.gate_up(4), of.down(4)}) {
    EXPECT_TRUE(tuned_dtypes(ops(), wisdom, config).empty());
    wisdom.put({.problem = gemm, .variant = "host_naive", .time_us = 1});
  }
  EXPECT_EQ(tuned_dtypes(ops(), wisdom, config), std::vector{DType::fp16});
  const fs::path file = folder_ / "wisdom.json";
  wisdom.save(file);
  const std::string
      note =
          "note: the wisdom has winners of gqa in fp16 only, and this run is fp32; --dtype fp16 uses "
          "them\n",
      command = "--model " + golden("gqa") + " --steps 1 --wisdom " + file.string();
  ASSERT_EQ(run(command), 0) << output_;
  EXPECT_NE(output_.find(note), std::string::npos) << output_;
  ASSERT_EQ(run(command + " --dtype fp16"), 0) << output_;
  EXPECT_EQ(output_.find("the wisdom has winners"), std::string::npos) << output_;
}

TEST_F(DecodeCommand, SamplesFromAllLogits) {
  const std::string command =
      "--model " + golden("gqa") + " --steps 4 --dtype fp32 --sampling temperature=0.9,top_k=";
  const auto tokens = [&](const std::string& k) {
    EXPECT_EQ(run(command + k), 0) << output_;
    const auto begin = output_.find("sequence 0:");
    return output_.substr(begin, output_.find('\n', begin) - begin);
  };
  const std::string all = tokens("0");
  EXPECT_EQ(all, tokens("256")) << "the vocabulary";
  EXPECT_EQ(all, tokens("1000"));
  EXPECT_EQ(read_csv(folder_ / "host" / "decode.csv").back().at("plan_set"), "default+top_k=1000");
}

TEST_F(DecodeCommand, RunsTheOtherOptions) {
  std::ofstream(folder_ / "ids.txt") << "5 6 7\n8,9\n";
  const std::string ids = " --prompt-ids " + (folder_ / "ids.txt").string();
  EXPECT_EQ(run("--model " + golden("mha") + ids +
                " --steps 4 --context 100 --dtype bf16 --graph off --batch 3 --csv " +
                (folder_ / "x.csv").string() + " --sampling top_k=50,p=0.9,temperature=0.7,seed=3" +
                " --variant linear=host_naive --variant rms_norm=host_threaded:threads=1"),
            0)
      << output_;
  const auto row = read_csv(folder_ / "x.csv").at(0);
  EXPECT_EQ(row.at("batch"), "3");
  EXPECT_EQ(row.at("context"), "100");
  EXPECT_EQ(row.at("graph"), "off");
  EXPECT_EQ(row.at("plan_set").substr(0, 10), "overrides-");
  EXPECT_TRUE(row.at("plan_set").ends_with("+top_k=50")) << row.at("plan_set");
  EXPECT_NE(output_.find(" us per token over 4 steps, "), std::string::npos) << output_;
  EXPECT_EQ(run("--model " + golden("tied") + " --prompt-len 3,9 --check-baseline 8"), 0) << output_;
  EXPECT_EQ(run("--model " + golden("tied") + " --prompt-len 3,9 --check-baseline 8 --check-steps-only"), 0);
  EXPECT_EQ(read_csv(folder_ / "host" / "decode.csv").back().at("check"), "pass-steps");
}

TEST_F(DecodeCommand, RecordsTheKvCacheOfARun) {
  // Stores one bandwidth for the floors of all runs: a new measurement depends on the load of the machine.
  ASSERT_EQ(program("calibrate --device host --out " + folder_.string()), 0) << output_;
  const std::string check = "--model " + golden("gqa") + " --check " + golden("gqa") + "/golden.safetensors";
  const auto last = [&] { return read_csv(folder_ / "host" / "decode.csv").back(); };
  ASSERT_EQ(run(check + " --kv-dtype int8 --page-size 16"), 0) << output_;
  EXPECT_EQ(last().at("plan_set"), "default+kv=int8+page=16+mean_context=35");
  EXPECT_EQ(last().at("check"), "pass");
  const double int8_floor = std::stod(last().at("floor_us"));
  ASSERT_EQ(run(check + " --kv-dtype fp8 --window 68 --check-baseline 4"), 0) << output_;
  EXPECT_EQ(last().at("plan_set"), "default+kv=fp8+window=68+mean_context=35");
  ASSERT_EQ(run(check + " --kv-dtype same"), 0) << output_;
  EXPECT_EQ(last().at("plan_set"), "default+mean_context=35");
  EXPECT_LT(int8_floor, std::stod(last().at("floor_us"))) << "fewer bytes to move";
  EXPECT_EQ(run(check + " --window 8"), 1) << "the golden has no window\n" << output_;
}

TEST_F(DecodeCommand, TimesUnevenSequencesAtTheirOwnLengths) {
  const std::string uneven = "--model " + golden("gqa") + " --prompt-len 3,40 --steps 2";
  const auto last = [&] { return read_csv(folder_ / "host" / "decode.csv").back(); };
  ASSERT_EQ(run(uneven), 0) << output_;
  EXPECT_NE(output_.find("context 42 at most, 23.5 on average"), std::string::npos) << output_;
  EXPECT_EQ(last().at("plan_set"), "default+mean_context=24");
  EXPECT_EQ(last().at("context"), "42");
  ASSERT_EQ(run(uneven + " --context 42"), 0) << output_;
  EXPECT_EQ(last().at("plan_set"), "default") << "every sequence has the 42 keys of --context";
}

TEST_F(DecodeCommand, BothLayoutsOfKGiveTheSameTokens) {
  const std::string check = "--model " + golden("gqa") + " --check " + golden("gqa") + "/golden.safetensors";
  const auto tokens = [&](const std::string& options) {
    EXPECT_EQ(run(check + options), 0) << options << "\n" << output_;
    EXPECT_EQ(read_csv(folder_ / "host" / "decode.csv").back().at("check"), "pass");
    std::string lines;
    for (std::size_t at = output_.find("sequence 0:"); at != std::string::npos;
         at = output_.find("\nsequence ", at + 1))
      lines += output_.substr(at, output_.find('\n', at + 1) - at);
    EXPECT_FALSE(lines.empty());
    return lines;
  };
  const std::string rows = tokens("");
  for (const std::string options :
       {" --k-layout dsx", " --k-layout dsx --fuse-append on", " --k-layout dsx --page-size 16"})
    EXPECT_EQ(tokens(options), rows) << options;
  EXPECT_EQ(read_csv(folder_ / "host" / "decode.csv").back().at("plan_set"),
            "default+page=16+k_layout=dsx+mean_context=35");
  EXPECT_EQ(tokens(" --k-layout dsx --kv-dtype int8"), tokens(" --k-layout sd --kv-dtype int8"));
}

TEST_F(DecodeCommand, AFusedArgmaxIsForced) {
  for (const char* fuse : {"on", "off"}) {
    ASSERT_EQ(run("--model " + golden("gqa") + " --check " + golden("gqa") +
                  "/golden.safetensors --dtype bf16 --fuse-argmax " + fuse),
              0)
        << output_;
    EXPECT_EQ(output_.find("epilogue=argmax") != std::string::npos, std::string(fuse) == "on") << output_;
    EXPECT_EQ(output_.find("argmax[") != std::string::npos, std::string(fuse) == "off") << output_;
    EXPECT_NE(output_.find("27 tokens equal"), std::string::npos) << output_;
  }
}

TEST_F(DecodeCommand, UsesThePlansOfAFreshSweep) {
  const std::string sweep = (folder_ / "golden.yaml").string();
  std::ofstream(sweep)
      << "device: host\ncache: hot\nfinalists: 1\nsampling: {min_samples: 6, max_time: 0.001}\nmodels:\n"
         "  - {model: "
      << golden("gqa") << ", dtypes: fp32, batch: 3, context: [64, 128], prompt_len: 27, max_configs: 1}\n";
  const std::string check = "--model " + golden("gqa") + " --check " + golden("gqa") + "/golden.safetensors";
  EXPECT_EQ(run(check + " --require-tuned"), 1) << "no wisdom yet\n" << output_;
  EXPECT_NE(output_.find("plans are defaults: "), std::string::npos) << output_;
  EXPECT_EQ(read_csv(folder_ / "host" / "decode.csv").back().at("plan_set"), "default+mean_context=35");

  ASSERT_EQ(program("tune " + sweep + " --out " + folder_.string()), 0) << output_;
  ASSERT_EQ(run(check + " --require-tuned"), 0) << output_;
  const auto row = read_csv(folder_ / "host" / "decode.csv").back();
  EXPECT_TRUE(std::regex_match(row.at("plan_set"), std::regex("tuned\\+[0-9]+near\\+mean_context=35")))
      << row.at("plan_set") << ": the prompts are longer than the sweep's";
  EXPECT_EQ(row.at("check"), "pass");
  EXPECT_EQ(output_.find("default"), std::string::npos) << output_;
  EXPECT_EQ(output_.find("measured now"), std::string::npos)
      << "the peaks of the sweep are used: " << output_;
  const fs::path device_file = folder_ / "host" / "device.json";
  nlohmann::json device = nlohmann::json::parse(std::ifstream(device_file));
  device["id"] = "another card";
  std::ofstream(device_file) << device;
  ASSERT_EQ(run(check), 0) << output_;
  EXPECT_NE(output_.find("GB/s measured now"), std::string::npos) << output_;

  // The wisdom has only some ops of another shape.
  ASSERT_EQ(run("--model " + golden("mha") + " --prompt-len 3 --steps 2"), 0) << output_;
  EXPECT_TRUE(read_csv(folder_ / "host" / "decode.csv").back().at("plan_set").starts_with("tuned+"))
      << output_;
}

TEST_F(DecodeCommand, ChecksTheCsvBeforeAppending) {
  const std::string mha = "--model " + golden("mha") + " --prompt-len 3 --steps 2";
  const fs::path csv = folder_ / "host" / "decode.csv";
  ASSERT_EQ(run(mha), 0) << output_;
  std::ofstream(csv, std::ios::app) << "1,half";
  ASSERT_EQ(run(mha), 0) << output_;
  EXPECT_NE(output_.find("ended in an incomplete line, which is now in"), std::string::npos) << output_;
  EXPECT_EQ(read_csv(csv).size(), 2u);

  auto rows = read_csv(csv);
  rows[1]["tokens_per_s"] = "fast";
  write_csv(csv, decode_columns(), rows);
  EXPECT_EQ(run(mha), 2) << output_;
  EXPECT_NE(output_.find("decode.csv:3: tokens_per_s is 'fast', which is not a number"), std::string::npos)
      << output_;
  rows[1]["tokens_per_s"] = "2";
  rows[0]["schema"] = "2";
  write_csv(csv, decode_columns(), rows);
  EXPECT_EQ(run(mha), 2) << output_;
  EXPECT_NE(output_.find("decode.csv:2: schema '2'"), std::string::npos) << output_;
  write_csv(csv, {"schema"}, {{{"schema", "1"}}});
  EXPECT_EQ(run(mha), 2) << output_;
  EXPECT_NE(output_.find("decode.csv:1: this file has other columns"), std::string::npos) << output_;
}

TEST_F(DecodeCommand, BadInputIsOneSentenceAndExitsWithTwo) {
  fs::copy(golden("mha"), folder_ / "cut");
  fs::resize_file(folder_ / "cut" / "model.safetensors", 400'000);
  std::ofstream(folder_ / "gap.txt") << "5 6\n\n7\n";
  fs::create_directories(folder_ / "heads_of_6");
  std::ofstream(folder_ / "heads_of_6" / "config.json")
      << R"({"hidden_size": 24, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 4,)"
      << R"( "vocab_size": 32})";
  const std::string mha = "--model " + golden("mha"),
                    check = mha + " --check " + golden("mha") + "/golden.safetensors";
  const std::pair<std::string, const char*> cases[] = {
      {"", "--model DIR or --preset"},
      {"--preset llama9", "the presets are"},
      {"--model /nowhere", "cannot be read"},
      {"--model " + (folder_ / "cut").string(), "truncated"},
      {"--preset llama2-13b --batch 4000 --prompt-len 4000", "MiB free"},
      {mha + " --dtype int32", "--dtype is 'int32'; it must be fp32, fp16 or bf16"},
      {mha + " --dtype fp8", "--dtype is 'fp8'; it must be fp32, fp16 or bf16"},
      {mha + " --variant rms_norm=vectorized", "--variant rms_norm=vectorized is never taken"},
      {mha + " --variant rms_norm=host_threaded:threads=4096", "breaks"},
      {mha + " --variant softmax=host_naive", "no 'softmax' of this run"},
      {"--fuse-swiglu on --model " + golden("smollm3"),
       "--fuse-swiglu on needs gate and up without a bias; smollm3 has biases"},
      {"--model " + (folder_ / "heads_of_6").string(),
       "heads_of_6 has neither model.safetensors nor model.safetensors.index.json; --random-weights SEED "
       "runs "
       "its config.json"},
      {mha + " --baseline naive --require-tuned", "--require-tuned excludes --baseline"},
      {mha + " --prompt-ids " + (folder_ / "gap.txt").string(), "gap.txt:2: the line is empty"},
      {check + " --batch 7", "--batch excludes --check"},
      {check + " --prompt-len 5", "--prompt-len excludes --check"},
      {check + " --prompt-ids x", "--prompt-ids excludes --check"},
      {check + " --steps 2", "--steps excludes --check"},
      {mha + " --sampling best", "name=value"},
      {mha + " --variant linear=fastest", "no variant"},
      {mha + " --wisdom /nowhere", "cannot be read"},
      {mha + " --check /nowhere", "cannot be read"},
      {mha + " --prompt-ids /nowhere", "cannot be read"},
      {mha + " --steps -1", "--steps"},
      {mha + " --kv-dtype int4", "--kv-dtype: int4 not in {same,int8,fp8}"},
      {mha + " --k-layout xd", "--k-layout: xd not in {sd,dsx}"},
      {"--k-layout dsx --model " + (folder_ / "heads_of_6").string(),
       "k_layout=dsx needs heads of whole 16 bytes, not 6 x fp32"},
      {mha + " --page-size 48", "--page-size: 48 not in {16,32,64,128,256}"},
      {mha + " --page-size 8", "--page-size: 8 not in"},
      {mha + " --page-size x", "--page-size"},
      {mha + " --window 0", "--window: Value 0 not in range"},
      {mha + " --window -3", "--window"},
  };
  for (const auto& [arguments, part] : cases) {
    EXPECT_EQ(run(arguments), 2) << arguments << "\n" << output_;
    EXPECT_NE(output_.find(part), std::string::npos) << arguments << "\n" << output_;
  }
}

}  // namespace
}  // namespace warptune
