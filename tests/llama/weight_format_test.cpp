// Formats of weights: their texts, the dims of op linear, and bytes.
#include "harness/llama/weight_format.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "harness/core/error.h"
#include "harness/core/op.h"
#include "tests/llama/small_models.h"
#include "variants/table.h"

namespace warptune {
namespace {

using testing::all_weight_formats;

std::string error_of(const std::string& text) {
  try {
    return "no error, but " + parse_weight_format(text).str();
  } catch (const InputError& e) {
    return e.what();
  }
}

TEST(WeightFormat, ItsTextIsReadBack) {
  for (const WeightFormat& format : all_weight_formats()) {
    EXPECT_EQ(parse_weight_format(format.str()), format) << format.str();
    EXPECT_EQ(parse_weight_format(format.str()).str(), format.str());
  }
}

TEST(WeightFormat, Int4HasGroupsOf128UnlessItSaysOthers) {
  EXPECT_EQ(parse_weight_format("int4").str(), "int4:group=128");
  EXPECT_EQ(parse_weight_format("int4:group=32").group, 32);
  EXPECT_EQ(parse_weight_format("int4:group=0").group, 0);
  EXPECT_EQ(parse_weight_format("int4:group=0").str(), "int4:group=0");
  EXPECT_EQ(parse_weight_format("int4:act_order:zeros").str(), "int4:group=128:zeros:act_order");
  EXPECT_EQ(parse_weight_format("int8").group, 0);
  EXPECT_EQ(parse_weight_format("int8:group=0").str(), "int8");
  EXPECT_EQ(parse_weight_format("fp8").group, 0);
  EXPECT_FALSE(parse_weight_format("fp8").fp8_activations);
  EXPECT_EQ(parse_weight_format("fp8:activations=fp8:group=128").str(), "fp8:group=128:activations=fp8");
  EXPECT_EQ(parse_weight_format("nvfp4").group, 16);
  EXPECT_EQ(parse_weight_format("nvfp4").str(), "nvfp4");
  EXPECT_EQ(parse_weight_format("mxfp4").group, 32);
  EXPECT_EQ(parse_weight_format("q4_k").group, 32);
  EXPECT_EQ(parse_weight_format("q4_k").str(), "q4_k");
  EXPECT_EQ(parse_weight_format("q5_k").group, 32);
  EXPECT_EQ(parse_weight_format("q5_k").str(), "q5_k");
  EXPECT_EQ(parse_weight_format("q6_k").group, 16);
  EXPECT_EQ(parse_weight_format("q6_k").str(), "q6_k");
  EXPECT_EQ(parse_weight_format("same"), WeightFormat{});
}

TEST(WeightFormat, WrongTextsAreOneSentence) {
  for (const char* text : {"",
                           ":",
                           "int3",
                           "INT4",
                           "int4 ",
                           " int4",
                           "int4:",
                           "int4::zeros",
                           "int4:group",
                           "int4:group=",
                           "int4:group=16",
                           "int4:group=64x",
                           "int4:group=-1",
                           "int4:groups=64",
                           "int4,zeros",
                           "same:group=32",
                           "same:zeros",
                           "same:act_order",
                           "fp8:activations",
                           "fp8:activations=int8",
                           "mxfp8",
                           "nvfp4:group=16",
                           "nvfp4:group=32",
                           "mxfp4:group=32",
                           "q4_k:group=32",
                           "q5_k:group=32",
                           "q6_k:group=16",
                           "Q4_K"})
    EXPECT_EQ(
        error_of(text),
        "'" + std::string(text) +
            "' is no format of weights; it must be same, int8, int4, fp8, nvfp4, mxfp4, q4_k, q5_k or q6_k, "
            "with :group=32, 64 or 128 where groups of columns have a scale, fp8 also with :activations=fp8");
  EXPECT_EQ(error_of("fp8:group=64"),
            "'fp8:group=64' has groups of 64; those of fp8 are 128, blocks of 128 x 128");
  for (const char* text : {"int8:zeros", "int8:group=64:zeros", "fp8:zeros", "nvfp4:zeros", "q4_k:zeros",
                           "q5_k:zeros", "q6_k:zeros"})
    EXPECT_EQ(error_of(text), "'" + std::string(text) + "' has zero points; they need int4");
  for (const char* text : {"int8:act_order", "fp8:group=128:act_order", "int4:group=0:act_order",
                           "mxfp4:act_order", "q4_k:act_order", "q5_k:act_order", "q6_k:act_order"})
    EXPECT_EQ(error_of(text),
              "'" + std::string(text) + "' has an order of columns; it needs int4 or int8 and a group");
  EXPECT_EQ(error_of("int8:activations=fp8"),
            "'int8:activations=fp8' has activations of fp8; they need weights of fp8");
  EXPECT_LT(error_of(std::string(10'000, 'x')).size(), 400u);
}

/// The problem that a sweep or a key gives, with the check of the op.
Problem checked(const WeightFormat& format, const std::string& prologue, const std::string& epilogue) {
  static const char* const kNames[] = {"same",  "int8", "int4", "fp8", "nvfp4",
                                       "mxfp4", "q4_k", "q6_k", "q5_k"};
  const std::vector<std::pair<std::string, std::string>> dims = {
      {"tokens", "3"},
      {"in", "256"},
      {"out", "96"},
      {"bias", "no"},
      {"prologue", prologue},
      {"epilogue", epilogue},
      {"weights", kNames[format.weights]},
      {"group", std::to_string(format.group)},
      {"zeros", format.zeros ? "yes" : "no"},
      {"act_order", format.act_order ? "yes" : "no"}};
  return find_op("linear").op.problem(dims, DType::bf16);
}

TEST(WeightFormat, ActivationsOfManyTokensAreRounded) {
  const WeightFormat format = parse_weight_format("fp8:activations=fp8");
  const auto activations = [&](const char* tokens) {
    const Problem linear = find_op("linear").op.problem(
        std::vector<std::pair<std::string, std::string>>{{"tokens", tokens}, {"in", "256"}, {"out", "96"}},
        DType::bf16);
    return with_weights(linear, format)["activations"];
  };
  EXPECT_EQ(activations("64"), kActivationsSame);
  EXPECT_EQ(activations("65"), kActivationsFp8);
}

TEST(WeightFormat, GivesTheProblemOfTheSameDims) {
  for (const char* prologue : {"none", "rms_norm"})
    for (const char* epilogue : {"none", "add", "swiglu"})
      for (const WeightFormat& format : all_weight_formats()) {
        const Problem want = checked(format, prologue, epilogue);
        for (const WeightFormat& before :
             {WeightFormat{}, parse_weight_format("int4:group=32:zeros:act_order")}) {
          const Problem got = with_weights(checked(before, prologue, epilogue), format);
          EXPECT_EQ(got.key(), want.key());
          EXPECT_EQ(got, want) << got.key();
          for (const auto& entry : want.dims) {
            const Assignment::Entry* const other = got.dims.find(entry.name);
            ASSERT_TRUE(other) << entry.name;
            EXPECT_EQ(*other, entry) << got.key() << " " << entry.name;
          }
        }
      }
}

TEST(WeightFormat, GroupsDivideTheColumns) {
  const Problem linear = checked({}, "none", "none");
  const WeightFormat format = parse_weight_format("int4:group=128");
  Problem narrow = linear;
  narrow.dims.set("in", 192);
  const auto refused = [&](const auto& call) {
    try {
      call();
      return std::string("no error");
    } catch (const InputError& e) {
      return std::string(e.what());
    }
  };
  const std::string sentence = "weights of 192 columns have no groups of 128; it must divide them";
  EXPECT_EQ(refused([&] { with_weights(narrow, format); }), sentence);
  EXPECT_EQ(refused([&] { matrix_bytes(format, DType::bf16, 8, 192); }), sentence);
  EXPECT_EQ(refused([&] { groups_of(format, 192); }), sentence);
  EXPECT_EQ(with_weights(narrow, parse_weight_format("int4:group=64"))["group"], 64);
  EXPECT_EQ(refused([&] { groups_of(parse_weight_format("q4_k"), 384); }),
            "weights of 384 columns have no super-blocks of 256; it must divide them");
}

// What a problem reads of its weights is what they take on the device, but for padding.
TEST(WeightFormat, BytesAreThoseOfTheOpsTensors) {
  const OpEntry& linear = find_op("linear");
  for (const WeightFormat& format : all_weight_formats()) {
    Problem problem = checked(format, "none", "none");
    problem.dims.set("out", 128);  // whole blocks, also of scales
    double bytes = 0;
    for (const TensorSpec& spec : linear.op.tensors(problem, 1)) {
      if (spec.name != "weight" && spec.name != "scales" && spec.name != "zeros" && spec.name != "order" &&
          spec.name != "row_scales")
        continue;
      double elements = 1;
      for (const std::int64_t extent : spec.shape) elements *= static_cast<double>(extent);
      bytes += elements * static_cast<double>(size_of(spec.dtype));
    }
    EXPECT_EQ(matrix_bytes(format, problem.dtype, 128, 256), bytes) << format.str();
  }
}

}  // namespace
}  // namespace warptune
