// Sweeps that change the inputs of their problems.
#include <cmath>

#include "harness/results/journal.h"
#include "harness/results/wisdom.h"
#include "harness/tune/protocol.h"
#include "tests/program.h"
#include "tests/tune/sweep_text.h"

namespace warptune {
namespace {
namespace fs = std::filesystem;
using testing::error_of;
using testing::load;
using testing::with_op;

const std::string kProblemLine = "    problems: [{tokens: 1, hidden: 8}]\n";

TEST(SweepInputs, OfTheSweepAndOfAnItem) {
  const Sweep sweep = load(
      "inputs: {x: {scale: 1e-5}, weight: {value: -.inf, every: 3}}\nops:\n"
      "  - {op: rms_norm, problems: [{tokens: 1, hidden: 8}], inputs: {x: {value: nan}}}\n"
      "  - {op: softmax, problems: [{batch: 1, q_heads: 1, q_len: 1, kv_len: 8}]}\n"
      "  - {op: swiglu, problems: [{tokens: 1, intermediate: 8}]}\n");
  const auto& norm = sweep.items.at(0).options.inputs;
  ASSERT_EQ(norm.size(), 2u);
  EXPECT_EQ(norm[0].str(), "weight value=-inf every=3");
  EXPECT_EQ(norm[1].str(), "x value=nan every=1");
  EXPECT_EQ(sweep.items.at(1).options.inputs, (InputChanges{{.tensor = "x", .scale = 1e-5}}));
  EXPECT_TRUE(sweep.items.at(2).options.inputs.empty());
}

TEST(SweepInputs, ErrorsHaveALine) {
  EXPECT_EQ(
      error_of("inputs: {y: {scale: 2}}\n" + with_op(kProblemLine)),
      "1: 'y' of rms_norm[tokens=1,hidden=8,dtype=bf16] is an output; only inputs of fp32, fp16 or bf16 are "
      "changed, here x, weight");
  EXPECT_EQ(error_of("inputs: {z: {scale: 2}}\n" + with_op(kProblemLine)), "1: no problem has an input 'z'");
  EXPECT_EQ(error_of(with_op(kProblemLine + "    inputs: {wait: {scale: 2}}\n")),
            "4: rms_norm[tokens=1,hidden=8,dtype=bf16] has no tensor 'wait'; its inputs are x, weight");
  EXPECT_EQ(error_of(with_op(kProblemLine + "    inputs:\n      x: {}\n")),
            "5: 'x' of 'inputs' needs 'scale' or 'value'");
  EXPECT_EQ(error_of(with_op(kProblemLine + "    inputs:\n      x: {value: huge}\n")),
            "5: 'value' is 'huge'; it must be a number, inf, -inf or nan");
  EXPECT_EQ(error_of(with_op(kProblemLine + "    inputs:\n      x: {scale: 2, every: 3}\n")),
            "5: 'every' needs 'value'");
  EXPECT_EQ(error_of(with_op(kProblemLine + "    inputs:\n      x: {value: 2, every: 0}\n")),
            "5: 'every' is 0; it must be 1 or more");
  EXPECT_EQ(
      error_of(with_op(kProblemLine +
                       "  - {op: rms_norm, inputs: {x: {scale: 2}}, problems: [{tokens: 1, hidden: 8}]}\n")),
      "4: rms_norm[tokens=1,hidden=8,dtype=bf16] comes up again with other 'inputs'; their rows need a sweep "
      "of their own");
  EXPECT_EQ(error_of("inputs: {x: {scale: 2}}\nsteps:\n  - {model: llama3.2-1b, context: 64}\n"),
            "1: 'inputs' changes the problems of 'ops' and 'models'; 'steps' run a model");
}

TEST(SweepInputs, ReachTheWorkerAndTheKeysOfRows) {
  Job job{.problem = {.op = "rms_norm", .dtype = DType::fp32}};
  job.options.inputs = {{.tensor = "x", .scale = 1e-5, .value = NAN, .every = 7}};
  EXPECT_EQ(job_of(to_json(job)).options.inputs, job.options.inputs);
  EXPECT_NE(stamp_of("source", job.options), stamp_of("source", {}));
  BenchOptions other = job.options;
  other.inputs[0].every = 8;
  EXPECT_NE(stamp_of("source", job.options), stamp_of("source", other));
}

TEST(SweepInputs, TheirRowsAreTheirOwnAndNoWinners) {
  const fs::path folder = testing::fresh_folder("inputs");
  const auto tune = [&](const std::string& inputs) {
    std::ofstream(folder / "s.yaml") << "name: s\ndevice: host\ndtypes: fp32\ncache: hot\n"
                                     << inputs
                                     << "ops:\n  - {op: rms_norm, problems: [{tokens: 1, hidden: 64}], "
                                        "variants: [host_naive]}\n";
    return testing::run_shell("{} tune " + (folder / "s.yaml").string() + " --out " + folder.string());
  };
  const auto rows = [&] { return testing::first_rows(read_csv(folder / "host" / "s.csv")).size(); };
  ASSERT_EQ(tune("inputs: {x: {value: inf, every: 5}}\n").code, 0);
  EXPECT_EQ(rows(), 1u);
  EXPECT_FALSE(fs::exists(folder / "host" / "wisdom.json") &&
               !Wisdom::load(folder / "host" / "wisdom.json").winners().empty());
  ASSERT_EQ(tune("inputs: {x: {scale: 1e-5}}\n").code, 0);
  EXPECT_EQ(rows(), 2u);
  ASSERT_EQ(tune("").code, 0);
  EXPECT_EQ(rows(), 3u);
  EXPECT_EQ(Wisdom::load(folder / "host" / "wisdom.json").winners().size(), 1u);
}

}  // namespace
}  // namespace warptune
