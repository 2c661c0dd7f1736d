// Ops of the user: what their definitions become, their references, and the sentence of each mistake.
#include <gtest/gtest.h>

#include "tests/custom/op_file.h"
#include "tests/support.h"

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
  const auto cpp = [&](const std::string& body, const std::string& part) {
    write(folder / "bad.cpp",
          "#include <stdio.h>\nextern \"C\" void axpy(const double* const* in, double* const* out, "
          "const long long*, const double*) {\n" +
              body + "\n}\n");
    const OpText d{.reference = "{cpp: bad.cpp, function: axpy}"};
    const std::string text = reference_error(d, folder, 0.5);
    EXPECT_NE(
        text.find("the reference 'axpy' of '" + (folder / "bad.cpp").string() + "' does not run: " + part),
        std::string::npos)
        << text;
  };
  cpp("volatile int i = 0; while (i == 0) {}", "it ran for more than 0.5 seconds");
  cpp("for (;;) puts(\"again and again\");", "it printed more than 1048576 bytes");
  cpp("*(volatile int*)8 = 1;", "it died of signal 11");
  if (!testing::has_numpy()) GTEST_SKIP() << "python3 has no NumPy";
  write(folder / "bad.py", "def axpy(x):\n    return x[0]\n");
  holds({.reference = "{python: bad.py, function: axpy}"}, "it returns 'y' of shape [5] instead of [3, 5]");
  holds({.reference = "{python: bad.py, function: axpi}"}, "has no attribute 'axpi'");
}

TEST(DefinedOp, APythonReferenceReturnsAllOutputsAsRealNumbers) {
  if (!testing::has_numpy()) GTEST_SKIP() << "python3 has no NumPy";
  const fs::path folder = op_folder("op_python_results");
  const auto holds = [&](const std::string& body, const std::string& part, double seconds = 60) {
    write(folder / "bad.py", "import time\ndef axpy(x, y):\n    " + body + "\n");
    const std::string text =
        reference_error({.reference = "{python: bad.py, function: axpy}"}, folder, seconds);
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  holds("return y", "none");
  holds("return {'y': y}", "none");
  holds("return y, x", "it returns 2 instead of 1 outputs, a tuple or dict of y");
  holds("return ()", "it returns 0 instead of 1 outputs");
  holds("return {'z': y}", "it returns a dict of z instead of y");
  holds("return {'y': y, 'z': y}", "it returns a dict of y, z instead of y");
  holds("return y + 1j", "it returns 'y' of type complex128 instead of real numbers");
  holds("return y.astype(str)", "instead of real numbers");
  holds("return None", "instead of real numbers");
  holds("time.sleep(60)", "it ran for more than 2 seconds", 2);
  holds("\n    while True: print('again')", "it printed more than 1048576 bytes");
  holds("return y + float('inf')", "gives no finite value of 'y'");
  write(folder / "bad.py", "def axpy(x, z):\n    return x\n");
  EXPECT_NE(
      reference_error({.reference = "{python: bad.py, function: axpy}"}, folder)
          .find("its parameter 'z' is no input, dim or scalar; there are x, y, ids, a, columns, count, rows"),
      std::string::npos);
}

/// A kernel that writes infinity everywhere would agree with such a reference.
TEST(DefinedOp, AReferenceWithoutAFiniteValueIsRefused) {
  const fs::path folder = op_folder("op_infinite");
  const auto error = [&](const std::string& value) {
    write(folder / "inf.cpp",
          "extern \"C\" void axpy(const double* const*, double* const* out, const long long* "
          "dims, const double*) {\n  for (int i = 0; i < dims[0] * dims[1]; ++i) out[0][i] = " +
              value + ";\n}\n");
    return reference_error({.reference = "{cpp: inf.cpp, function: axpy}"}, folder);
  };
  const std::string sentence =
      "the reference of op 'axpy' gives no finite value of 'y': its 15 elements are infinite or NaN, so that "
      "nothing "
      "could be verified";
  EXPECT_EQ(error("__builtin_inf()"), sentence);
  EXPECT_EQ(error("__builtin_nan(\"\")"), sentence);
  EXPECT_EQ(error("i == 3 ? 1 : __builtin_inf()"), "none");
}

/// An expression that has no possible value for a problem is told where the problem is read.
TEST(DefinedOp, AnImpossibleValueIsToldWithTheProblem) {
  const fs::path folder = op_folder("op_values");
  const auto wrong = [&](const OpText& d) {
    return testing::message_of<InputError>(
        folder, [&] { problem_of(table_of(write(folder / "op.yaml", d.text()))->find("axpy").op); });
  };
  const std::string problem = "axpy[rows=3,columns=5,dtype=fp32]";
  EXPECT_EQ(wrong({}), "none");
  EXPECT_EQ(wrong({.x = "{name: x, shape: [rows / 2, columns]}"}),
            "op.yaml:5: 'shape' 'rows / 2' is 1.5 for " + problem +
                "; it must be an integer; ceil_div(a, b) rounds a / b up");
  EXPECT_EQ(wrong({.x = "{name: x, shape: [rows / (columns - 5), columns]}"}),
            "op.yaml:5: 'shape' 'rows / (columns - 5)' is nan for " + problem +
                "; it must be an integer; ceil_div(a, b) rounds a / b up");
  EXPECT_EQ(wrong({.x = "{name: x, shape: [1e9, 1e9]}"}),
            "op.yaml:5: tensor 'x' has more than 2^50 bytes for " + problem);
  EXPECT_EQ(wrong({.x = "{name: x, shape: rows, dtype: int8, below: 200}"}),
            "op.yaml:5: 'below' '200' is 200 for " + problem + "; it must be at most 128");
  EXPECT_EQ(wrong({.more = "bytes: rows - 4"}),
            "op.yaml:10: 'bytes' 'rows - 4' is -1 for " + problem + "; it must be a number from 0 up");
  EXPECT_EQ(
      wrong({.more = "tolerance: {rel_l2: 1 / (rows - 3)}"}),
      "op.yaml:10: 'rel_l2' '1 / (rows - 3)' is nan for " + problem + "; it must be a number from 0 up");
}

TEST(DefinedOp, ScalarsHaveTypes) {
  OpText d;
  d.scalars =
      "{a: 0.5, count: {size_t: rows * columns}, h: {half: 1.5}, on: {bool: rows > 1}, u: {unsigned: 7}}";
  const auto table = table_of(write(op_folder("op_scalars") / "op.yaml", d.text()));
  const Op& op = table->find("axpy").op;
  struct Expected {
    void *x, *y, *ids, *workspace;
    float a;
    std::size_t count;
    _Float16 h;
    bool on;
    unsigned u;
  } bound{};
  void* const tensors[3] = {};
  const Args args = op.bind(problem_of(op), tensors, nullptr);
  ASSERT_EQ(args.size(), sizeof bound);
  std::memcpy(&bound, args.data(), sizeof bound);
  EXPECT_EQ(bound.count, 15u);
  EXPECT_EQ(static_cast<float>(bound.h), 1.5f);
  EXPECT_TRUE(bound.on);
  EXPECT_EQ(bound.u, 7u);
  check_reference(op);
  const fs::path folder = op_folder("op_scalars_wrong");
  const auto wrong = [&](const std::string& scalars) {
    return testing::message_of<InputError>(folder, [&] {
      problem_of(table_of(write(folder / "op.yaml", OpText{.scalars = scalars}.text()))->find("axpy").op);
    });
  };
  const std::string end = " for axpy[rows=3,columns=5,dtype=fp32]; it must be ";
  EXPECT_EQ(wrong("{a: {bool: 2}}"), "op.yaml:8: scalar '2' is 2" + end + "at most 1");
  EXPECT_EQ(wrong("{a: {unsigned: 0 - rows}}"), "op.yaml:8: scalar '0 - rows' is -3" + end + "at least 0");
  EXPECT_EQ(wrong("{a: {half: 70000}}"),
            "op.yaml:8: scalar '70000' is 70000" + end + "a number that fp16 holds");
  EXPECT_EQ(wrong("{a: 1 / (rows - 3)}"),
            "op.yaml:8: scalar '1 / (rows - 3)' is nan" + end + "a number that fp32 holds");
  EXPECT_EQ(wrong("{a: {flot: 1}}"), "op.yaml:8: a scalar has the type 'flot'; did you mean 'float'?");
}

TEST(DefinedOp, ADimMayBeBeyond32Bits) {
  OpText d{.x = "{name: x, shape: [3, 5]}"};
  d.dims = "dims: {rows: {doc: rows, role: work}, columns: row length}";
  d.y = "{name: y, shape: [3, 5], role: inout}";
  d.ids = "{name: ids, shape: 3, dtype: int32, below: 5}";
  const auto table = table_of(write(op_folder("op_large") / "op.yaml", d.text()));
  const Op& op = table->find("axpy").op;
  const Problem problem = op.problem(Assignment{{"rows", 5'000'000'000}, {"columns", 1}}, DType::fp32);
  void* const tensors[3] = {};
  const Args args = op.bind(problem, tensors, nullptr);
  long long count = 0;
  std::memcpy(&count, static_cast<const std::byte*>(args.data()) + 40, sizeof count);
  EXPECT_EQ(count, 5'000'000'000);
  EXPECT_THROW(op.problem(Assignment{{"rows", 9'100'000'000'000'000}, {"columns", 1}}, DType::fp32),
               InputError);
  EXPECT_THROW(
      find_op("rms_norm").op.problem(Assignment{{"tokens", 3'000'000'000}, {"hidden", 8}}, DType::fp32),
      InputError);
}

/// y64 = y, as fp64, rounded to int64 and to int8.
const OpText kWide = {
    .x = "{name: x, shape: [rows, columns], dtype: int8}",
    .y = "{name: y, shape: [rows, columns], dtype: fp64, role: inout, uniform: 1000}",
    .ids =
        "{name: ids, shape: [rows, columns], dtype: int64, role: output}\n      - {name: index, shape: rows, "
        "dtype: int64, below: columns}\n      - {name: small, shape: [rows, columns], dtype: int8, role: "
        "output}",
    .reference = "{cpp: wide.cpp, function: wide}",
};

TEST(DefinedOp, TensorsMayBeInt8Int64AndFp64) {
  const fs::path folder = op_folder("op_wide");
  write(folder / "wide.cpp", R"(
extern "C" void wide(const double* const* in, double* const* out, const long long* dims, const double*) {
  for (long long i = 0; i < dims[0] * dims[1]; ++i) {
    out[0][i] = in[1][i] + in[0][i] / 3;
    out[1][i] = i == 0 ? -1 : 3e9 + i + in[2][i / dims[1]];
    out[2][i] = i == 1 ? -128 : in[0][i];
  }
}
)");
  const auto table = table_of(write(folder / "op.yaml", kWide.text()));
  const OpEntry& entry = table->find("axpy");
  const Problem problem = problem_of(entry.op);
  const auto specs = entry.op.tensors(problem, 3);
  EXPECT_EQ(specs[0].scale, 127);
  EXPECT_EQ(specs[1].bytes(), 120);
  EXPECT_EQ(specs[3].dtype, DType::int64);
  testing::check_host_variants(entry, problem, 1);
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
  EXPECT_EQ(wrong({.x = "{name: x, shape: [row, columns]}"}),
            "op.yaml:5: unknown name 'row' at position 1 of 'shape' 'row'; did you mean 'rows'?");
  EXPECT_EQ(wrong({.x = "{name: x, shape: rows, dtype: int32}"}),
            "op.yaml:5: the int32 tensor 'x' needs 'below': its values are from 0 up to it");
  EXPECT_EQ(wrong({.x = "{name: x, shape: rows, dtype: int64, uniform: 3, below: 2}"}),
            "op.yaml:5: 'uniform' is for int8 and floating point; the values of 'x' are 'below'");
  EXPECT_EQ(wrong({.x = "{name: x, shape: rows, dtype: fp64, below: 2}"}),
            "op.yaml:5: 'below' is for integer tensors; 'x' is filled by 'uniform'");
  EXPECT_EQ(wrong({.x = "{name: x, shape: rows, dtype: fp8}"}),
            "op.yaml:5: unknown dtype 'fp8'; known are fp32, fp16, bf16, int32, int64, int8, fp64");
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
