#pragma once
// An op of the user for tests, y += a * x, and what its reference computes.
#include "tests/custom/kernel_file.h"

namespace warptune::testing {

/// The definition of an op with other lines in place of the usual ones.
struct OpText {
  std::string name = "axpy", dims = "dims: {rows: {doc: rows, role: work}, columns: row length}",
              x = "{name: x, shape: [rows, columns], uniform: 2}",
              y = "{name: y, shape: [rows, columns], role: inout, cache: hot}",
              ids = "{name: ids, shape: rows, dtype: int32, below: columns}",
              scalars = "{a: 0.5, count: {long long: rows * columns}}",
              reference = "{cpp: axpy.cpp, function: axpy}", more = "summary: y += a * x";

  std::string text() const {
    return "ops_defined:\n  - name: " + name + "\n    " + dims + "\n    tensors:\n      - " + x +
           "\n      - " + y + "\n      - " + ids + "\n    scalars: " + scalars +
           "\n    reference: " + reference + "\n    " + more + "\n";
  }
};

inline fs::path op_folder(const std::string& name) {
  const fs::path folder = fs::path(::testing::TempDir()) / name;
  write(folder / "axpy.cpp", R"(
extern "C" void axpy(const double* const* in, double* const* out, const long long* dims, const double* scalars) {
  for (long long i = 0; i < dims[0] * dims[1]; ++i) out[0][i] = in[1][i] + scalars[0] * in[0][i] + 0 * in[2][0];
}
)");
  write(folder / "axpy.py",
        "def axpy(x, y, a, rows):\n    assert x.shape[0] == rows\n    return y + a * x\n");
  return folder;
}

inline Problem problem_of(const Op& op) {
  return op.problem(Assignment{{"rows", 3}, {"columns", 5}}, DType::fp32);
}

/// Checks that y is y + 0.5 * x in the reference, exactly unless `error` is given.
inline void check_reference(const Op& op, double error = 0) {
  const Problem problem = problem_of(op);
  const auto specs = op.tensors(problem, 3);
  const Inputs inputs(specs, 3);
  Expected expected;
  op.reference(problem, inputs, 0, expected);
  ASSERT_EQ(expected.runs().size(), 1u);
  EXPECT_EQ(expected.runs()[0].tensor, "y");
  ASSERT_EQ(expected.runs()[0].values.size(), 15u);
  for (std::int64_t i = 0; i < 15; ++i)
    EXPECT_NEAR(expected.runs()[0].values[static_cast<std::size_t>(i)], inputs["y"][i] + 0.5 * inputs["x"][i],
                error);
}

/// What the reference says when it runs; or "none".
inline std::string reference_error(const OpText& d, const fs::path& folder,
                                   double seconds = kReferenceSeconds) {
  const fs::path files[] = {write(folder / "op.yaml", d.text())};
  const auto table = with_kernels(ops(), files, seconds);
  const Op& op = table->find("axpy").op;
  const auto specs = op.tensors(problem_of(op), 3);
  Expected expected;
  try {
    op.reference(problem_of(op), Inputs(specs, 3), 0, expected);
  } catch (const InputError& e) {
    return e.what();
  }
  return "none";
}

}  // namespace warptune::testing
