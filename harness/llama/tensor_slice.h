#pragma once
// The part of a stored tensor that a rank reads.
#include <cstdint>
#include <memory>

#include "harness/llama/safetensors.h"

namespace warptune {

/// Elements [first, first + count) of `stored` ones.
struct Slice {
  std::int64_t count = 0, first = 0, stored = 0;
  Slice() = default;
  Slice(std::int64_t all) : count(all), stored(all) {}  // implicit: a number is the whole extent
  Slice(std::int64_t first, std::int64_t count, std::int64_t stored)
      : count(count), first(first), stored(stored) {}
  bool is_whole() const { return count == stored; }
  /// In units of `size` elements each, of which the last may have fewer.
  Slice in_units(std::int64_t size) const {
    return {first / size, (count + size - 1) / size, (stored + size - 1) / size};
  }
};

/// The tensor's rows, and of two axes its columns. Slices of rows view the tensor, which must outlive them;
/// those of columns are copied. Columns are those of the shape, and begin and end between blocks.
std::shared_ptr<const StoredTensor> sliced(const StoredTensor& tensor, const Slice& rows,
                                           const Slice& columns);

}  // namespace warptune
