#pragma once
// Strided-batched GEMM by cuBLASLt with fp32 accumulation.
#include <cstdint>
#include <memory>

#include "harness/core/dtype.h"

namespace warptune {

/// Strides of a batch of matrices in elements: from row to row and from matrix to matrix.
struct MatrixStrides {
  std::int64_t row = 0, matrix = 0;
};

/// c[rows, columns] = a[rows, inner] . b, all row-major. `b_transposed`: b is [columns, inner], else
/// [inner, columns].
struct BatchedGemmShape {
  DType inputs = DType::bf16, output = DType::bf16;
  std::int64_t rows = 1, columns = 1, inner = 1, batch = 1;
  bool b_transposed = false;
  MatrixStrides a, b, c;
  std::int64_t alignment = 256;  // of each matrix in bytes
};

/// A GEMM with one of the algorithms that cuBLASLt's heuristic offers.
class BatchedGemm {
 public:
  static constexpr std::int64_t kWorkspaceBytes = 32 << 20;

  /// `algorithm` is an index into the results of the heuristic. Throws ResourceError if there are fewer.
  BatchedGemm(const BatchedGemmShape& shape, std::int64_t algorithm);
  BatchedGemm(BatchedGemm&&) noexcept;
  ~BatchedGemm();

  /// Enqueues the GEMM. `b_matrix_stride` replaces the stride of the shape; both must have the alignment of
  /// the shape. `workspace` has kWorkspaceBytes.
  void run(const void* a, const void* b, std::int64_t b_matrix_stride, void* c, void* workspace,
           void* stream);

 private:
  struct Descriptors;
  std::unique_ptr<Descriptors> descriptors_;
};

/// The largest power of two, at most 256, that divides a size in bytes.
constexpr std::int64_t alignment_of(std::int64_t bytes) {
  const std::int64_t lowest = bytes & -bytes;
  return lowest < 256 ? lowest : 256;
}

}  // namespace warptune
