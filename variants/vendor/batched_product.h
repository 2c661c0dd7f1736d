#pragma once
// Many matrix products of one shape by cuBLASLt, fp32 accumulation.
#include <cstdint>
#include <memory>

#include "harness/core/dtype.h"

namespace warptune {

/// Where the matrices of a batch lie, in elements: from row to row and from matrix to matrix.
struct MatrixStrides {
  std::int64_t row = 0, matrix = 0;
};

/// c[rows, columns] = a[rows, inner] . b, all row-major. `b_transposed`: b is [columns, inner], else
/// [inner, columns].
struct BatchedProductShape {
  DType inputs = DType::bf16, output = DType::bf16;
  std::int64_t rows = 1, columns = 1, inner = 1, batch = 1;
  bool b_transposed = false;
  MatrixStrides a, b, c;
  std::int64_t alignment = 256;  // bytes that each matrix's address is a multiple of
};

/// One of the algorithms that cuBLASLt's heuristic offers.
class BatchedProduct {
 public:
  static constexpr std::int64_t kWorkspaceBytes = 32 << 20;

  /// Throws ResourceError where there is no algorithm of that number.
  BatchedProduct(const BatchedProductShape& shape, std::int64_t algorithm);
  BatchedProduct(BatchedProduct&&) noexcept;
  ~BatchedProduct();

  /// Enqueues the product. `b_matrix_stride` stands for that of the shape, which it may differ from by whole
  /// alignments. `workspace`: kWorkspaceBytes.
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
