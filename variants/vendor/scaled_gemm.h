#pragma once
// GEMM of e4m3 by cuBLASLt with a scale of fp32 per row of both operands.
#include <cstdint>
#include <memory>

#include "harness/core/dtype.h"

namespace warptune {

/// c[rows, columns] = a[rows, inner] . b[columns, inner]^T (+ bias[columns]), all row-major.
struct ScaledGemmShape {
  DType output = DType::bf16;
  std::int64_t rows = 1, columns = 1, inner = 1;
  bool bias = false;
};

/// Device addresses. Scales: [rows] and [columns].
struct ScaledGemmOperands {
  const void *a, *a_scales, *b, *b_scales, *bias;
  void *c, *workspace;  // of ScaledGemm::kWorkspaceBytes
};

/// A GEMM with one of the algorithms that cuBLASLt's heuristic offers.
class ScaledGemm {
 public:
  static constexpr std::int64_t kWorkspaceBytes = 32 << 20;

  /// `algorithm` is an index into the results of the heuristic. Throws ResourceError if there are fewer, or
  /// if the library is older than 12.9, the first that scales rows.
  ScaledGemm(const ScaledGemmShape& shape, std::int64_t algorithm);
  ScaledGemm(ScaledGemm&&) noexcept;
  ~ScaledGemm();

  void run(const ScaledGemmOperands& operands, void* stream);

 private:
  struct Descriptors;
  std::unique_ptr<Descriptors> descriptors_;
};

}  // namespace warptune
