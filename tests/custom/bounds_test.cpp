// Ops and kernels of the user: numbers at the edge of what they may be, and what follows where a key is left
// out.
#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "harness/core/facts.h"
#include "harness/core/space.h"
#include "tests/custom/op_file.h"

namespace warptune {
namespace {

using testing::Definition;
using testing::kernel_folder;
using testing::op_folder;
using testing::OpText;
using testing::problem_of;
using testing::table_of;
using testing::write;
namespace fs = std::filesystem;

/// The part of the message from the line on: "op.yaml:5: ..."; or "none".
template <class Body>
std::string error_of(const Body& body) {
  try {
    body();
  } catch (const std::exception& e) {
    const std::string text = e.what();
    const auto file = text.find(".yaml:");
    return file == std::string::npos ? text : text.substr(text.rfind('/', file) + 1);
  }
  return "none";
}

class OwnOp : public ::testing::Test {
 protected:
  /// The op of a definition; it lives as long as the test.
  const OpEntry& entry_of(const OpText& definition) { return read(definition.text()); }
  const OpEntry& read(const std::string& text) {
    tables_.push_back(table_of(write(op_folder("bounds") / "op.yaml", text)));
    return tables_.back()->find("axpy");
  }
  static Problem problem(const OpEntry& entry, std::int64_t rows, std::int64_t columns) {
    return entry.op.problem(Assignment{{"rows", rows}, {"columns", columns}}, DType::fp32);
  }

 private:
  std::vector<std::shared_ptr<const OpTable>> tables_;
};

TEST_F(OwnOp, ToleratesOneRoundingUnlessItSaysMore) {
  const auto tolerance = [&](const std::string& more) {
    const OpEntry& entry = entry_of({.more = more});
    return entry.op.tolerance(problem_of(entry.op));
  };
  const Tolerance one = default_tolerance(DType::fp32), three = default_tolerance(DType::fp32, 3);
  EXPECT_NE(one.rel_l2, three.rel_l2);
  EXPECT_EQ(tolerance("summary: y").rel_l2, one.rel_l2);
  EXPECT_EQ(tolerance("summary: y").max_rel, one.max_rel);
  EXPECT_EQ(tolerance("tolerance: {roundings: rows}").rel_l2, three.rel_l2);
  EXPECT_EQ(tolerance("tolerance: {roundings: rows}").max_rel, three.max_rel);
  EXPECT_EQ(tolerance("tolerance: {rel_l2: 1 / 8}").rel_l2, 0.125);
  EXPECT_EQ(tolerance("tolerance: {rel_l2: 1 / 8}").max_rel, one.max_rel);
  EXPECT_EQ(tolerance("tolerance: {max_rel: 1 / 4}").rel_l2, one.rel_l2);
  EXPECT_EQ(tolerance("tolerance: {max_rel: 1 / 4}").max_rel, 0.25);
  EXPECT_EQ(tolerance("tolerance: {roundings: 100}").rel_l2, default_tolerance(DType::fp32, 100).rel_l2);
  EXPECT_NE(error_of([&] { tolerance("tolerance: {roundings: 0}"); }).find("it must be at least 1"),
            std::string::npos);
  EXPECT_NE(error_of([&] { tolerance("tolerance: {roundings: 101}"); }).find("it must be at most 100"),
            std::string::npos);
}

TEST_F(OwnOp, HasNoTensorWithoutElements) {
  const OpEntry& entry = entry_of({.x = "{name: x, shape: [rows - 3, columns]}"});
  EXPECT_EQ(entry.op.tensors(problem(entry, 4, 5), 1)[0].shape, (std::vector<std::int64_t>{1, 5}));
  EXPECT_EQ(
      error_of([&] { entry.op.tensors(problem(entry, 3, 5), 1); }),
      "op.yaml:5: 'shape' 'rows - 3' is 0 for axpy[rows=3,columns=5,dtype=fp32]; it must be at least 1");
}

TEST_F(OwnOp, IntegersAreBelowALimitThatTheyCanHave) {
  const OpEntry& entry = entry_of({.x = "{name: x, shape: rows, dtype: int32, below: 2 * columns - 2}"});
  const auto specs = entry.op.tensors(problem(entry, 64, 2), 7);
  EXPECT_EQ(std::set(specs[0].values.begin(), specs[0].values.end()), (std::set<std::int32_t>{0, 1}));
  const auto refused = [&](std::int64_t columns) {
    return error_of([&] { entry.op.tensors(problem(entry, 2, columns), 7); });
  };
  EXPECT_NE(refused(1).find("it must be at least 1"), std::string::npos) << refused(1);
  EXPECT_EQ(refused((1 << 30) + 1), "none");
  EXPECT_NE(refused((1 << 30) + 2).find("it must be at most 2147483648"), std::string::npos);
}

TEST_F(OwnOp, DimsMayHaveDefaultsAndBounds) {
  const OpEntry& entry = entry_of({.dims = "dims: {rows: {default: 7, min: 2}, columns: c}"});
  EXPECT_EQ(entry.op.problem(Assignment{{"columns", 5}}, DType::fp32)["rows"], 7);
  EXPECT_EQ(problem(entry, 2, 5)["rows"], 2);
  EXPECT_THROW(problem(entry, 1, 5), InputError);
  EXPECT_EQ(entry.op.find_dim("columns")->doc, "c");
  EXPECT_EQ(entry.op.find_dim("columns")->role, DimRole::shape);
}

TEST_F(OwnOp, CostsWhatItSaysElseItsTensors) {
  const OpEntry& usual = entry_of({});
  const Cost cost = usual.op.cost(problem_of(usual.op));
  EXPECT_EQ(cost.bytes, 60 + 2 * 60 + 12);  // an inout tensor is read and written
  EXPECT_EQ(cost.flops, 15 + 15 + 3);
  const OpEntry& told = entry_of({.more = "bytes: 8 * rows\n    flops: columns"});
  EXPECT_EQ(told.op.cost(problem_of(told.op)).bytes, 24);
  EXPECT_EQ(told.op.cost(problem_of(told.op)).flops, 5);
  EXPECT_EQ(told.op.summary, "axpy");
  EXPECT_EQ(usual.op.summary, "y += a * x");
}

TEST_F(OwnOp, HasTheDtypesThatItNames) {
  EXPECT_EQ(entry_of({.more = "dtypes: [fp32]"}).op.dtypes, std::vector{DType::fp32});
  EXPECT_GT(entry_of({}).op.dtypes.size(), 1u);
}

TEST_F(OwnOp, AnEditOfItsDefinitionMakesRowsStale) {
  const std::string hash = entry_of({}).host_source_hash;
  EXPECT_EQ(entry_of({}).host_source_hash, hash);
  EXPECT_NE(entry_of({.more = "tolerance: {roundings: 2}"}).host_source_hash, hash);
}

TEST_F(OwnOp, IntegerTensorsDifferAndOutputsNeedNoLimit) {
  const OpEntry& two = entry_of({.x = "{name: x, shape: rows, dtype: int32, below: columns}"});
  const auto specs = two.op.tensors(problem(two, 64, 1000), 7);
  EXPECT_NE(specs[0].values, specs[2].values);
  const OpEntry& output = entry_of({.x = "{name: x, shape: rows, dtype: int32, role: output}"});
  EXPECT_TRUE(output.op.tensors(problem(output, 64, 1000), 7)[0].values.empty());
}

/// The bytes of the last member of an op with one scalar `s`.
template <class T>
T scalar_of(const OpEntry& entry, const Problem& problem) {
  void* const tensors[3] = {};
  const Args args = entry.op.bind(problem, tensors, nullptr);
  T value{};
  std::memcpy(&value, static_cast<const std::byte*>(args.data()) + entry.op.fields.back().offset,
              sizeof value);
  return value;
}

TEST_F(OwnOp, ScalarsFitTheirTypes) {
  const auto with = [&](const std::string& scalar) -> const OpEntry& {
    std::string text = OpText().text();
    const std::string usual = "{a: 0.5, count: {long long: rows * columns}}";
    return read(text.replace(text.find(usual), usual.size(), "{s: " + scalar + "}"));
  };
  const std::int64_t rows = 1 << 15, columns = 1 << 16;  // their product is 2^31
  const OpEntry &below = with("{int: rows * columns - 1}"), &least = with("{int: 0 - rows * columns}");
  EXPECT_EQ(scalar_of<int>(below, problem(below, rows, columns)), 2147483647);
  EXPECT_EQ(scalar_of<int>(least, problem(least, rows, columns)), -2147483647 - 1);
  const auto refused = [&](const OpEntry& entry, std::int64_t factor = 1) {
    return error_of([&] { scalar_of<int>(entry, problem(entry, factor * rows, columns)); });
  };
  EXPECT_EQ(
      refused(with("{int: rows * columns}")),
      "op.yaml:8: scalar 'rows * columns' is 2147483648 for axpy[rows=32768,columns=65536,dtype=fp32]; it "
      "must be at most 2147483647");
  EXPECT_NE(refused(with("{int: rows * columns}"), 2).find("is 4294967296"), std::string::npos);
  EXPECT_NE(refused(with("{int: 0 - rows * columns - 1}")).find("must be at least -2147483648"),
            std::string::npos);
  EXPECT_NE(refused(with("{int: rows / 3}")).find("must be an integer"), std::string::npos);
  const OpEntry &wide = with("{long long: rows * columns}"), &real = with("{double: rows / 3}");
  EXPECT_EQ(scalar_of<long long>(wide, problem(wide, rows, columns)), 1LL << 31);
  EXPECT_EQ(scalar_of<double>(real, problem(real, 1, 1)), 1.0 / 3);
  EXPECT_EQ(scalar_of<float>(with("{float: rows / 3}"), problem(real, 1, 1)), 1.0f / 3);
}

TEST_F(OwnOp, RunsItsReferenceOnTheTensorsOfALaunch) {
  const OpEntry& entry = entry_of({});
  const Problem problem = problem_of(entry.op);
  std::vector<float> x(15), y(15);
  std::vector<std::int32_t> ids(3);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(i);
    y[i] = 100;
  }
  void* const tensors[] = {x.data(), y.data(), ids.data()};
  const Args args = entry.op.bind(problem, tensors, nullptr);
  entry.variant("host_naive").host(problem, {})(args.data());
  for (std::size_t i = 0; i < x.size(); ++i) {
    EXPECT_EQ(x[i], static_cast<float>(i));
    EXPECT_EQ(y[i], 100 + 0.5f * x[i]);
  }
}

class OwnKernel : public ::testing::Test {
 protected:
  /// The variant of a definition; it lives as long as the test.
  const Variant& variant_of(const Definition& definition) {
    tables_.push_back(table_of(write(kernel_folder("kernel_bounds") / "kernels.yaml", definition.text())));
    return tables_.back()->find("rms_norm").variant("scale");
  }
  Launch launch(const std::string& keys) {
    const Variant& variant = variant_of({.launch = "launch: {" + keys + "}"});
    return launch_of(variant, variant.stages[0], problem_, config_);
  }
  /// The right value that the sentence names.
  std::string refused(const std::string& keys) {
    const std::string text = error_of([&] { launch(keys); });
    const auto at = text.find("it must be ");
    return at == std::string::npos ? text : text.substr(at + 11);
  }

  const Problem problem_ =
      find_op("rms_norm").op.problem(Assignment{{"tokens", 3}, {"hidden", 1 << 20}}, DType::bf16);
  const Config config_{{"block", 64}};

 private:
  std::vector<std::shared_ptr<const OpTable>> tables_;
};

TEST_F(OwnKernel, IsLaunchedInsideOfTheBoundsOfALaunch) {
  const Launch usual = launch("grid: tokens, block: block");
  EXPECT_EQ(usual.grid.y, 1u);
  EXPECT_EQ(usual.block.z, 1u);
  EXPECT_EQ(usual.cluster, 1u);
  EXPECT_EQ(usual.shared_bytes, 0);
  EXPECT_EQ(usual.max_blocks, 0);
  EXPECT_FALSE(usual.pdl || usual.per_sm);
  const Launch all = launch(
      "grid: [2147483647, 1, 2], block: [1, 2, 3], shared: 4, cluster: 16, pdl: 1, per_sm: 1, max_blocks: 9");
  EXPECT_EQ(all.grid.x, 2147483647u);
  EXPECT_EQ(all.grid.z, 2u);
  EXPECT_EQ(all.block.y, 2u);
  EXPECT_EQ(all.block.z, 3u);
  EXPECT_EQ(all.shared_bytes, 4);
  EXPECT_EQ(all.cluster, 16u);
  EXPECT_EQ(all.max_blocks, 9);
  EXPECT_TRUE(all.pdl && all.per_sm);
  EXPECT_EQ(refused("grid: 0, block: block"), "at least 1");
  EXPECT_EQ(refused("grid: 2147483648, block: block"), "at most 2147483647");
  EXPECT_EQ(refused("grid: 1, block: [block, 0]"), "at least 1");
  EXPECT_EQ(refused("grid: 1, block: 1, shared: tokens - 4"), "at least 0");
  EXPECT_EQ(refused("grid: 1, block: 1, cluster: 0"), "at least 1");
  EXPECT_EQ(refused("grid: 1, block: 1, cluster: 17"), "at most 16");
  EXPECT_EQ(refused("grid: 1, block: 1, pdl: 2"), "at most 1");
  EXPECT_EQ(refused("grid: 1, block: 1, per_sm: tokens - 4"), "at least 0");
  EXPECT_EQ(refused("grid: 1, block: 1, per_sm: 2"), "at most 1");
  EXPECT_EQ(refused("grid: 1, block: 1, max_blocks: tokens - 4"), "at least 0");
  EXPECT_EQ(refused("grid: [1, 1, 1, 1], block: 1"),
            "kernels.yaml:9: 'grid' has 4 extents; at most 3 are possible");
}

TEST_F(OwnKernel, HasClustersAndPdlOnDevicesThatHaveThem) {
  const auto runs = [&](const std::string& keys, const char* arch) {
    const Variant& variant = variant_of({.launch = "launch: {grid: tokens, block: block, " + keys + "}"});
    return !Space(variant, problem_, known_device(arch)).broken_constraint(config_);
  };
  for (const char* key : {"cluster: 2", "cluster: block / 32", "pdl: 1"}) {
    EXPECT_TRUE(runs(key, "sm_90a")) << key;
    EXPECT_FALSE(runs(key, "sm_80")) << key;
  }
  for (const char* key : {"cluster: 1", "cluster: block / 64", "pdl: 0", "shared: 4"})
    EXPECT_TRUE(runs(key, "sm_80")) << key;
  const Variant& staged = variant_of(
      {.kernel = "",
       .arguments = "",
       .launch = "",
       .more =
           "stages: [{kernel: plain, arguments: [x, y, hidden, eps], launch: {grid: 1, block: block}}, "
           "{kernel: plain, arguments: [x, y, hidden, eps], launch: {grid: 2, block: block, cluster: 2}}]"});
  EXPECT_TRUE(Space(staged, problem_, known_device("sm_80")).broken_constraint(config_));
  EXPECT_FALSE(Space(staged, problem_, known_device("sm_90a")).broken_constraint(config_));
}

TEST_F(OwnKernel, GetsArgumentsThatFitTheirTypes) {
  const auto refused = [&](const std::string& argument) {
    const Variant& variant = variant_of({.arguments = "arguments: [" + argument + "]"});
    const std::string text = error_of([&] { variant.stages[0].custom->arguments(problem_, config_); });
    const auto at = text.find("it must be ");
    return at == std::string::npos ? text : text.substr(at + 11);
  };
  EXPECT_EQ(refused("hidden * 2048 - 1"), "none");  // 2^31 - 1
  EXPECT_EQ(refused("hidden * 2048"), "at most 2147483647");
  EXPECT_EQ(refused("{int: hidden * 2048}"), "at most 2147483647");
  EXPECT_EQ(refused("{int: hidden * 4096}"), "at most 2147483647");
  EXPECT_EQ(refused("{int: 0 - hidden * 2048}"), "none");
  EXPECT_EQ(refused("{int: 0 - hidden * 2048 - 1}"), "at least -2147483648");
  EXPECT_EQ(refused("{long long: hidden * 4096}"), "none");
  EXPECT_EQ(refused("{long long: hidden / 3}"), "an integer; ceil_div(a, b) rounds a / b up");
  EXPECT_EQ(refused("{float: hidden / 3}"), "none");
  const auto list = variant_of({.arguments = "arguments: [{double: 1 / 3}]"})
                        .stages[0]
                        .custom->arguments(problem_, config_);
  double third = 0;
  std::memcpy(&third, list[0].value.data(), sizeof third);
  EXPECT_EQ(list[0].bytes, sizeof third);
  EXPECT_EQ(third, 1.0 / 3);
}

TEST_F(OwnKernel, CountsTheBytesOfItsDtype) {
  const Variant& variant = variant_of({.arguments = "arguments: [dtype_bytes]"});
  const auto value = [&](DType dtype) {
    Problem problem = problem_;
    problem.dtype = dtype;
    int bytes = 0;
    std::memcpy(&bytes, variant.stages[0].custom->arguments(problem, config_)[0].value.data(), sizeof bytes);
    return bytes;
  };
  EXPECT_EQ(value(DType::bf16), 2);
  EXPECT_EQ(value(DType::fp32), 4);
}

/// The struct of `linear` has a pointer to the workspace, that of `rms_norm` has none.
TEST_F(OwnKernel, HasAWorkspaceInTheArgsOfItsOpOrOfItsOwn) {
  const std::string bytes = "workspace: 4 * block";
  const Variant& own = variant_of({.arguments = "arguments: [x, workspace]", .more = bytes});
  EXPECT_EQ(own.workspace.number(), 0);
  EXPECT_EQ(bytes_of(own.own_workspace, own, problem_, config_), 256);
  const auto table = table_of(write(kernel_folder("kernel_workspace") / "kernels.yaml",
                                    Definition{.op = "linear",
                                               .arguments = "arguments: [x, workspace]",
                                               .launch = "launch: {grid: out, block: block}",
                                               .more = bytes}
                                        .text()));
  const Variant& passed = table->find("linear").variant("scale");
  EXPECT_EQ(passed.own_workspace.number(), 0);
  EXPECT_EQ(bytes_of(passed.workspace, passed, problem_, config_), 256);
}

}  // namespace
}  // namespace warptune
