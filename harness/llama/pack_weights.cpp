// Packs stored weights as the kernels of op linear take them, on several threads.

#include <algorithm>
#include <cstring>

#include "harness/core/error.h"
#include "harness/core/parallel.h"
#include "harness/llama/gguf.h"
#include "harness/llama/pack_row.h"
#include "harness/llama/quantized_matrix.h"

namespace warptune {
namespace {

constexpr int kTileRows = 32;

/// Values of a tile, a byte each, before they are packed: 64 bytes of each packed row.
template <int kBits>
struct RowTile {
  static constexpr int kColumns = 8 * kBlockRowBytes / kBits;
  std::int64_t row, column;  // its first, in the module
  int rows, columns;         // fewer at the edges
  alignas(64) std::uint8_t values[kTileRows][kColumns];
};

/// Four or eight values of a word, the lowest first.
template <int kBits>
auto values_of(std::uint32_t word) {
  if constexpr (kBits == 8) {
    return word;
  } else {
    std::uint64_t x = word;
    x = (x | x << 16) & 0x0000ffff0000ffffu;
    x = (x | x << 8) & 0x00ff00ff00ff00ffu;
    return (x | x << 4) & 0x0f0f0f0f0f0f0f0fu;
  }
}

/// One value of a word.
template <int kBits>
std::uint8_t value_of(std::uint32_t word, std::int32_t position) {
  return static_cast<std::uint8_t>(word >> (position * kBits) & ((1u << kBits) - 1));
}

/// GPTQ: [columns / 8, rows], a word has adjacent columns of one row.
template <int kBits>
void read_gptq(const QuantizedTensors& from, RowTile<kBits>& tile) {
  constexpr int kPerWord = 32 / kBits;
  if (from.order.empty()) {
    for (int c = 0; c < tile.columns; c += kPerWord) {
      const std::int64_t first = (tile.column + c) / kPerWord * from.rows + tile.row;
      for (int r = 0; r < tile.rows; ++r) {
        const auto values = values_of<kBits>(stored_word(*from.weight, first + r));
        std::memcpy(&tile.values[r][c], &values, kPerWord);
      }
    }
    return;
  }
  for (int c = 0; c < tile.columns; ++c) {
    const std::int32_t column = from.order[tile.column + c];
    const std::int64_t first = column / kPerWord * from.rows + tile.row;
    for (int r = 0; r < tile.rows; ++r)
      tile.values[r][c] = value_of<kBits>(stored_word(*from.weight, first + r), column % kPerWord);
  }
}

/// AWQ: [columns, rows / 8], a word has eight rows of one column.
void read_awq(const QuantizedTensors& from, RowTile<4>& tile) {
  for (int c = 0; c < tile.columns; ++c) {
    const std::int64_t first = ((tile.column + c) * from.rows + tile.row) / 8;
    for (int r = 0; r < tile.rows; r += 8) {
      const std::uint32_t word = stored_word(*from.weight, first + r / 8);
      for (int i = 0; i < 8; ++i) tile.values[r + i][c] = value_of<4>(word, awq_position(i));
    }
  }
}

/// compressed-tensors and fp4: [rows, columns / 8], a word has adjacent columns of one row.
template <int kBits>
void read_packed(const QuantizedTensors& from, RowTile<kBits>& tile) {
  constexpr int kPerWord = 32 / kBits;
  for (int r = 0; r < tile.rows; ++r) {
    const std::int64_t row = (tile.row + r) * (from.columns / kPerWord);
    if (from.order.empty()) {
      for (int c = 0; c < tile.columns; c += kPerWord) {
        const auto values = values_of<kBits>(stored_word(*from.weight, row + (tile.column + c) / kPerWord));
        std::memcpy(&tile.values[r][c], &values, kPerWord);
      }
      continue;
    }
    for (int c = 0; c < tile.columns; ++c) {
      const std::int32_t column = from.order[tile.column + c];
      tile.values[r][c] =
          value_of<kBits>(stored_word(*from.weight, row + column / kPerWord), column % kPerWord);
    }
  }
}

/// Q4_0: byte i has value i in its low bits and value i + 16 in the high, as the value plus 8.
void unpack_q4_0(const std::byte* block, std::uint8_t* values) {
  for (int i = 0; i < 16; ++i) {
    const int pair = byte_at(block, kGgufScaleBytes + i);
    values[i] = static_cast<std::uint8_t>(pair & 15);
    values[i + 16] = static_cast<std::uint8_t>(pair >> 4);
  }
}

/// The values of a block of Q4_0, Q5_0 or Q8_0 as bytes of int8.
void unpack_block(const BlockType& type, const std::byte* block, std::uint8_t* values) {
  constexpr int kValues = 32;
  if (type.weights == kWeightsInt4) {
    unpack_q4_0(block, values);
    for (int i = 0; i < kValues; ++i) values[i] -= zero_point_of(kWeightsInt4);
  } else if (type.name == "Q5_0") {
    unpack_q5_0(block, values);
  } else {
    std::memcpy(values, block + kGgufScaleBytes, kValues);
  }
  make_unsigned(values, kValues);
}

/// GGUF: blocks of 32 columns.
template <int kBits>
void read_gguf(const QuantizedTensors& from, RowTile<kBits>& tile) {
  for (int r = 0; r < tile.rows; ++r)
    for (int c = 0; c < tile.columns; c += from.format.group) {
      const std::byte* const block = from.block(tile.row + r, (tile.column + c) / from.format.group);
      if constexpr (kBits == 8)
        unpack_block(*from.block_type, block, &tile.values[r][c]);
      else
        unpack_q4_0(block, &tile.values[r][c]);
    }
}

/// Super-blocks of GGUF: a tile is a half or a quarter of one.
template <int kBits>
void read_super(const QuantizedTensors& from, RowTile<kBits>& tile) {
  for (int r = 0; r < tile.rows; ++r) {
    const std::byte* const block = from.block(tile.row + r, tile.column / from.format.group);
    unpack_super_block(from.block_type->weights, block, static_cast<int>(tile.column % kSuperColumns),
                       tile.columns, tile.values[r]);
  }
}

/// [rows, columns], a byte per value.
void read_plain(const QuantizedTensors& from, RowTile<8>& tile) {
  bool has_nan = false;
  for (int r = 0; r < tile.rows; ++r) {
    const auto* row =
        reinterpret_cast<const std::uint8_t*>(from.weight->data.data()) + (tile.row + r) * from.columns;
    for (int c = 0; c < tile.columns; ++c) {
      const std::uint8_t value = row[from.order.empty() ? tile.column + c : from.order[tile.column + c]];
      tile.values[r][c] = value;
      has_nan = has_nan || (value & 0x7f) == 0x7f;
    }
    if (from.format.weights == kWeightsInt8) make_unsigned(tile.values[r], tile.columns);
  }
  if (has_nan && from.format.weights == kWeightsFp8)
    throw InputError("tensor '{}' has a NaN", from.weight_name);
}

/// Tiles follow each other as the file stores them: so each thread reads a part of the file from its
/// beginning.
template <int kBits, class Read>
void pack_tiles(const QuantizedTensors& from, std::int64_t first_row, std::byte* to, const Read& read) {
  constexpr int kColumns = RowTile<kBits>::kColumns;
  const std::int64_t down = (from.rows + kTileRows - 1) / kTileRows,
                     across = (from.columns + kColumns - 1) / kColumns;
  const bool by_columns = from.is_column_major();
  parallel_for(down * across, kPackThreads, [&](std::int64_t i) {
    RowTile<kBits> tile;
    tile.row = (by_columns ? i % down : i / across) * kTileRows;
    tile.column = (by_columns ? i / down : i % across) * kColumns;
    tile.rows = static_cast<int>(std::min<std::int64_t>(kTileRows, from.rows - tile.row));
    tile.columns = static_cast<int>(std::min<std::int64_t>(kColumns, from.columns - tile.column));
    if (tile.columns < kColumns) std::memset(tile.values, 0, sizeof tile.values);
    read(from, tile);
    for (int r = 0; r < tile.rows; ++r)
      pack_row<kBits>(
          tile.values[r],
          to +
              packed_position(from.format.weights, from.columns, first_row + tile.row + r, tile.column).byte);
  });
}

}  // namespace

void pack_weights(const QuantizedTensors& from, std::int64_t first_row, std::byte* to) {
  const bool four = weight_bits(from.format.weights) == 4;
  if (has_super_blocks(from.format.weights)) {
    four ? pack_tiles<4>(from, first_row, to, read_super<4>)
         : pack_tiles<8>(from, first_row, to, read_super<8>);
  } else if (from.storage == WeightStorage::gguf) {
    four ? pack_tiles<4>(from, first_row, to, read_gguf<4>)
         : pack_tiles<8>(from, first_row, to, read_gguf<8>);
  } else if (from.storage == WeightStorage::plain) {
    pack_tiles<8>(from, first_row, to, read_plain);
  } else if (from.storage == WeightStorage::awq) {
    pack_tiles<4>(from, first_row, to, read_awq);
  } else if (!from.is_column_major()) {
    four ? pack_tiles<4>(from, first_row, to, read_packed<4>)
         : pack_tiles<8>(from, first_row, to, read_packed<8>);
  } else {
    four ? pack_tiles<4>(from, first_row, to, read_gptq<4>)
         : pack_tiles<8>(from, first_row, to, read_gptq<8>);
  }
}

}  // namespace warptune
