// `warptune decode` on quantized weights as a user types it, on the host device.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <utility>

#include "harness/results/csv.h"
#include "tests/program.h"

namespace warptune {
namespace {

namespace fs = std::filesystem;

class QuantizedDecode : public ::testing::Test {
 protected:
  int decode(const std::string& arguments) { return decode_plainly("--prompt-len 5 --steps 3 " + arguments); }
  int decode_plainly(const std::string& arguments) {
    const auto ended =
        testing::run_shell("{} decode --device host --out " + folder_.string() + " " + arguments);
    output_ = ended.text;
    return ended.code;
  }
  static std::string golden(const std::string& name) { return std::string(TEST_DATA) + "/golden/" + name; }
  static std::string quantized(const std::string& name) {
    return std::string(TEST_DATA) + "/quantized/" + name;
  }
  std::map<std::string, std::string> row() const { return read_csv(folder_ / "host" / "decode.csv").back(); }
  bool says(const std::string& part) const { return output_.find(part) != std::string::npos; }

  fs::path folder_ = testing::fresh_folder(std::string("quantized_") +
                                           ::testing::UnitTest::GetInstance()->current_test_info()->name());
  std::string output_;
};

TEST_F(QuantizedDecode, QuantizesA16BitCheckpoint) {
  for (const auto& [weights, text] : {std::pair<std::string, std::string>{"int8", "int8"},
                                      {"fp8", "fp8"},
                                      {"int4:group=32", "int4:group=32"},
                                      {"int4:group=0", "int4:group=0"},
                                      {"nvfp4", "nvfp4"},
                                      {"mxfp4", "mxfp4"},
                                      {"int8:group=64", "int8:group=64"}}) {
    ASSERT_EQ(decode("--model " + golden("mha") + " --weights " + weights + " --check-baseline 3"), 0)
        << output_;
    EXPECT_EQ(row().at("plan_set"), "default+weights=" + text);
    EXPECT_EQ(row().at("check"), "pass") << output_;
    EXPECT_TRUE(says("weights=" + text.substr(0, text.find(':')))) << output_;
  }
  ASSERT_EQ(decode("--model " + golden("mha") + " --weights same"), 0) << output_;
  EXPECT_EQ(row().at("plan_set"), "default");
  EXPECT_FALSE(says("weights=")) << output_;
}

TEST_F(QuantizedDecode, TakesLessMemory) {
  // No host has the memory of these KV caches; the sentence names what the weights take.
  const std::string run = "--preset llama2-13b --batch 4000 --prompt-len 4000 --dtype bf16 --weights ";
  const auto mib = [&](const std::string& weights) {
    EXPECT_EQ(decode_plainly(run + weights), 2);
    const std::string& text = output_;
    const auto at = text.find("(weights ");
    EXPECT_NE(at, std::string::npos) << text;
    return at == std::string::npos ? 0.0 : std::stod(text.substr(at + 9));
  };
  EXPECT_NEAR(mib("int8") / mib("same"), 0.5, 0.02);
  EXPECT_NEAR(mib("int4") / mib("same"), 0.265, 0.03);
  EXPECT_NEAR(mib("nvfp4") / mib("same"), 4.5 / 16, 0.02);
  EXPECT_NEAR(mib("mxfp4") / mib("same"), 4.25 / 16, 0.02);
  EXPECT_NEAR(mib("q4_k") / mib("same"), 4.625 / 16, 0.02);
  EXPECT_NEAR(mib("q5_k") / mib("same"), 8.625 / 16, 0.02);
  EXPECT_NEAR(mib("q6_k") / mib("same"), 8.5625 / 16, 0.02);
}

TEST_F(QuantizedDecode, RunsAQuantizedCheckpointAsItIs) {
  const std::string gptq = "--model " + quantized("gptq");
  ASSERT_EQ(decode(gptq + " --check-baseline 3"), 0) << output_;
  EXPECT_EQ(row().at("plan_set"), "default+weights=int4:group=64");
  ASSERT_EQ(decode(gptq + " --weights int4:group=64"), 0) << output_ << ": it is that format";
  ASSERT_EQ(decode("--model " + quantized("mixed")), 0) << output_;
  EXPECT_EQ(row().at("plan_set"), "default+weights=int4:group=32+mixed");
  ASSERT_EQ(decode("--model " + quantized("fp8_tensor")), 0) << output_;
  EXPECT_TRUE(says("activations are not quantized, they stay in 16 bits")) << output_;
  const std::string rounded = "--model " + quantized("fp8_tensor") + " --weights fp8:activations=fp8";
  ASSERT_EQ(decode_plainly("--prompt-len 70 --steps 3 --check-baseline 2 " + rounded), 0) << output_;
  EXPECT_EQ(row().at("plan_set"), "default+weights=fp8:activations=fp8");
  ASSERT_EQ(decode("--model " + quantized("modelopt_nvfp4") + " --check-baseline 3"), 0) << output_;
  EXPECT_EQ(row().at("plan_set"), "default+weights=nvfp4");
  EXPECT_TRUE(says("activations are not quantized, they stay in 16 bits")) << output_;
}

TEST_F(QuantizedDecode, ComparesLayersWithAnotherFormat) {
  const std::string model = "--model " + golden("mha");
  ASSERT_EQ(decode(model + " --dump-layers " + (folder_ / "dump").string()), 0) << output_;
  EXPECT_EQ(decode(model + " --weights int4:group=32 --compare-layers " + (folder_ / "dump").string()), 1)
      << output_;
}

TEST_F(QuantizedDecode, WrongFormatsAreOneSentenceAndExitWithTwo) {
  const std::string mha = "--model " + golden("mha");
  const std::pair<std::string, std::string> cases[] = {
      {mha + " --weights int3",
       "'int3' is no format of weights; it must be same, int8, int4, fp8, nvfp4, mxfp4, q4_k, q5_k or q6_k, "
       "with"},
      {mha + " --weights int4:group=48", "'int4:group=48' is no format of weights"},
      {mha + " --weights same:zeros", "'same:zeros' is no format of weights"},
      {mha + " --weights int8:zeros", "'int8:zeros' has zero points; they need int4"},
      {mha + " --weights int4", "weights of 64 columns have no groups of 128; it must divide them"},
      {mha + " --weights fp8:group=128", "weights of 64 columns have no groups of 128"},
      {mha + " --weights int4:group=32:zeros", "weights are not quantized to 'int4:group=32:zeros'"},
      {"--model " + quantized("gptq") + " --weights int8",
       "--weights int8 is for a model in 16 or 32 bits; the weights of gptq are int4:group=64"},
      {"--model " + quantized("gptq") + " --weights same", "--weights same is for a model in 16 or 32 bits"},
      {"--model " + quantized("nvfp4") + " --weights mxfp4", "the weights of nvfp4 are nvfp4"},
      {"--model " + quantized("gptq") + " --weights fp8:activations=fp8",
       "the weights of gptq are int4:group=64"},
  };
  for (const auto& [arguments, sentence] : cases) {
    EXPECT_EQ(decode(arguments), 2) << arguments << "\n" << output_;
    EXPECT_TRUE(says("warptune: ") && says(sentence)) << arguments << "\n" << output_;
    std::string errors = output_.substr(output_.find("warptune: "));
    EXPECT_EQ(std::ranges::count(errors, '\n'), 1) << errors;
  }
  const fs::path csv = folder_ / "host" / "decode.csv";
  EXPECT_TRUE(!fs::exists(csv) || read_csv(csv).empty());
}

}  // namespace
}  // namespace warptune
