#include "harness/llama/tensor_slice.h"

#include <cstring>

#include "harness/llama/gguf_blocks.h"

namespace warptune {
namespace {

struct OwnedTensor : StoredTensor {
  std::vector<std::byte> bytes;
};

/// The bytes of `values` values of a row.
std::size_t bytes_of(const StoredTensor& tensor, std::int64_t values) {
  if (const BlockType* type = find_block_type(tensor.dtype))
    return static_cast<std::size_t>(values / type->values * type->bytes);
  return static_cast<std::size_t>(values * stored_bytes(tensor.dtype));
}

}  // namespace

std::shared_ptr<const StoredTensor> sliced(const StoredTensor& tensor, const Slice& rows,
                                           const Slice& columns) {
  const bool is_vector = tensor.shape.size() < 2;
  const std::size_t row = bytes_of(tensor, is_vector ? 1 : columns.stored);
  auto slice = std::make_shared<OwnedTensor>();
  static_cast<StoredTensor&>(*slice) = tensor;
  slice->data = tensor.data.subspan(static_cast<std::size_t>(rows.first) * row,
                                    static_cast<std::size_t>(rows.count) * row);
  slice->shape[0] = rows.count;
  if (is_vector || columns.is_whole()) return slice;
  slice->shape[1] = columns.count;
  const std::size_t begin = bytes_of(tensor, columns.first), width = bytes_of(tensor, columns.count);
  slice->bytes.resize(static_cast<std::size_t>(rows.count) * width);
  for (std::size_t i = 0; i < static_cast<std::size_t>(rows.count); ++i)
    std::memcpy(slice->bytes.data() + i * width, slice->data.data() + i * row + begin, width);
  slice->data = slice->bytes;
  return slice;
}

}  // namespace warptune
