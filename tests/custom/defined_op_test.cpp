// Ops of the user: what their definitions become, their references, and the sentence of each mistake.
#include <gtest/gtest.h>

#include "tests/custom/op_file.h"

namespace warptune {
namespace {

using testing::check_reference;
using testing::op_folder;
using testing::OpText;
using testing::problem_of;
using testing::reference_error;
using testing::table_of;
using testing::write;
namespace fs = std::filesystem;

TEST(DefinedOp, HasDimsTensorsCostAndArguments) {
  const auto table = table_of(write(op_folder("op_parts") / "op.yaml", OpText().text()));
  const Op& op = table->find("axpy").op;
  const Problem problem = problem_of(op);
  EXPECT_EQ(problem.key(), "axpy[rows=3,columns=5,dtype=fp32]");
  EXPECT_EQ(op.find_dim("rows")->role, DimRole::work);
  const auto specs = op.tensors(problem, 7);
  ASSERT_EQ(specs.size(), 3u);
  EXPECT_EQ(specs[0].shape, (std::vector<std::int64_t>{3, 5}));
  EXPECT_EQ(specs[0].scale, 2);
  EXPECT_EQ(specs[1].role, Role::inout);
  EXPECT_EQ(specs[2].dtype, DType::int32);
  for (const std::int32_t id : specs[2].values) EXPECT_TRUE(id >= 0 && id < 5);
  EXPECT_EQ(op.cost(problem).bytes, 60 + 120 + 12);
  int x = 0, y = 0, ids = 0, workspace = 0;
  void* const tensors[] = {&x, &y, &ids};
  const Args args = op.bind(problem, tensors, &workspace);
  struct Expected {
    void *x, *y, *ids, *workspace;
    float a;
    long long count;
  } bound{};
  ASSERT_EQ(args.size(), sizeof bound);
  std::memcpy(&bound, args.data(), sizeof bound);
  EXPECT_EQ(bound.y, &y);
  EXPECT_EQ(bound.workspace, &workspace);
  EXPECT_EQ(bound.a, 0.5f);
  EXPECT_EQ(bound.count, 15);
}

TEST(DefinedOp, HasAReferenceInCpp) {
  check_reference(table_of(write(op_folder("op_cpp") / "op.yaml", OpText().text()))->find("axpy").op);
}

TEST(DefinedOp, HasAReferenceInPython) {
  if (!testing::has_numpy()) GTEST_SKIP() << "python3 has no NumPy";
  const OpText d{.reference = "{python: axpy.py, function: axpy}"};
  check_reference(table_of(write(op_folder("op_python") / "op.yaml", d.text()))->find("axpy").op);
}

TEST(DefinedOp, TellsWhyAReferenceDoesNotRun) {
  const fs::path folder = op_folder("op_wrong_reference");
  const auto holds = [&](const OpText& d, const std::string& part) {
    const std::string text = reference_error(d, folder);
    EXPECT_NE(text.find(part), std::string::npos) << text;
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
  };
  holds({.reference = "{cpp: axpy.cpp, function: axpi}"}, "has no function 'axpi' that is extern \"C\"");
  write(folder / "bad.cpp", "int x = ;\n");
  holds({.reference = "{cpp: bad.cpp, function: axpy}"}, "bad.cpp:1:");
  if (!testing::has_numpy()) GTEST_SKIP() << "python3 has no NumPy";
  write(folder / "bad.py", "def axpy(x):\n    return x[0]\n");
  holds({.reference = "{python: bad.py, function: axpy}"}, "it returns 'y' of shape [5] instead of [3, 5]");
  holds({.reference = "{python: bad.py, function: axpi}"}, "has no attribute 'axpi'");
}

TEST(DefinedOp, EveryMistakeIsOneSentenceWithItsLine) {
  const fs::path folder = op_folder("op_mistakes");
  const auto wrong = [&](const OpText& d) -> std::string {
    try {
      table_of(write(folder / "op.yaml", d.text()));
    } catch (const InputError& e) {
      return std::string(e.what()).substr(folder.string().size() + 1);
    }
    return "none";
  };
  EXPECT_EQ(wrong({}), "none");
  EXPECT_EQ(wrong({.name = "softmax"}), "op.yaml:2: there is an op 'softmax' already; choose another name");
  EXPECT_EQ(wrong({.name = "a b"}),
            "op.yaml:2: 'name' is 'a b'; it must be a name of letters, digits and '_'");
  EXPECT_EQ(wrong({.dims = "dims: {rows: rows, columns: c, sms: s}"}),
            "op.yaml:3: a dim cannot have the name 'sms', which expressions use already");
  EXPECT_EQ(wrong({.dims = "dims: {rows: {role: wrk}, columns: c}"}),
            "op.yaml:3: 'role' of a dim is 'wrk'; it must be one of shape, work, parallel, data");
  EXPECT_EQ(
      wrong({.x = "{name: x, shape: [row, columns]}"}),
      "op.yaml:5: unknown name 'row' at position 1 of 'shape' 'row'; it may use rows, columns, dtype_bytes");
  EXPECT_EQ(wrong({.x = "{name: x, shape: rows, dtype: int32}"}),
            "op.yaml:5: the int32 tensor 'x' needs 'below': its values are from 0 up to it");
  EXPECT_EQ(wrong({.x = "{name: y, shape: rows}"}), "op.yaml:2: op 'axpy' has two arguments 'y'");
  EXPECT_EQ(wrong({.x = "{name: x, shape: rows, role: in}"}),
            "op.yaml:5: 'role' is 'in'; it must be one of input, output, inout");
  EXPECT_EQ(wrong({.reference = "{cpp: axpy.cpp}"}),
            "op.yaml:9: 'reference' must be {cuda: FILE, kernel: NAME, ...}, {cpp: FILE, function: NAME} or "
            "{python: FILE, function: NAME}");
  EXPECT_TRUE(wrong({.reference = "{cpp: none.cpp, function: f}"}).starts_with("op.yaml:9: '"));
  EXPECT_EQ(wrong({.more = "dtypes: fp64"}).substr(0, 11), "op.yaml:10:");
  EXPECT_EQ(wrong({.more = "bites: 3"}).substr(0, 30), "op.yaml:10: unknown key 'bites");
}

}  // namespace
}  // namespace warptune
