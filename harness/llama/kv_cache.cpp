#include "harness/llama/kv_cache.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "harness/core/error.h"
#include "harness/core/random.h"

namespace warptune {
namespace {

int whole_pages(const KvFormat& format, int capacity) {
  const int page = std::max(1, format.page_size);
  return (capacity + page - 1) / page * page;
}

std::int64_t bytes_of_row(const ModelConfig& c, DType dtype, const KvFormat& format) {
  return c.head_dim * static_cast<std::int64_t>(size_of(format.stored(dtype)));
}

}  // namespace

KvCache::KvCache(Device& device, const ModelConfig& c, DType dtype, const KvFormat& format, int layers,
                 int batch, int capacity)
    : device_(device),
      format_(format),
      stored_(format.stored(dtype)),
      capacity_(whole_pages(format, capacity)),
      sequence_rows_(static_cast<std::int64_t>(c.kv_heads) * capacity_),
      row_bytes_(bytes_of_row(c, dtype, format)) {
  const std::int64_t rows = batch * sequence_rows_;
  const float largest = !format.quantized ? 1.0f : stored_ == DType::int8 ? 127.0f : 448.0f;
  for (int layer = 0; layer < layers; ++layer)
    for (std::vector<Side>* sides : {&k_, &v_}) {
      Side& side = sides->emplace_back();
      side.rows = device.allocate(static_cast<std::size_t>(rows * row_bytes_));
      device.fill_random(side.rows.data(), stored_, rows * c.head_dim, static_cast<std::uint64_t>(layer),
                         largest);
      if (!format.quantized) continue;
      side.scales = device.allocate(static_cast<std::size_t>(rows) * sizeof(float));
      device.fill_random(side.scales.data(), DType::fp32, rows, static_cast<std::uint64_t>(layer),
                         1 / largest);
    }
  if (format.page_size == 0) return;
  const int all = batch * pages();
  paging_.emplace(Paging{.free = PageAllocator(all),
                         .taken = std::vector<std::vector<int>>(static_cast<std::size_t>(batch)),
                         .table = device.allocate(static_cast<std::size_t>(all) * sizeof(int))});
  upload_table();
}

KvCache::View KvCache::view(int layer, int sequence) const {
  const Side &k = k_[layer], &v = v_[layer];
  const std::int64_t first = paging_ ? 0 : sequence * sequence_rows_;
  const auto rows = [&](const Side& side) -> void* { return side.rows.as<std::byte>() + first * row_bytes_; };
  const auto scales = [&](const Side& side) {
    return format_.quantized ? side.scales.as<float>() + first : nullptr;
  };
  return {.k = rows(k),
          .v = rows(v),
          .k_scale = scales(k),
          .v_scale = scales(v),
          .block_table = paging_ ? paging_->table.as<int>() + sequence * pages() : nullptr,
          .capacity = capacity_,
          .pages = pages()};
}

void KvCache::reserve(std::span<const int> keys) {
  if (!paging_) return;
  bool grown = false;
  for (std::size_t b = 0; b < keys.size(); ++b)
    while (static_cast<int>(paging_->taken[b].size()) * format_.page_size < keys[b]) {
      paging_->taken[b].push_back(paging_->free.take());
      grown = true;
    }
  if (grown) upload_table();
}

void KvCache::release() {
  if (!paging_) return;
  for (std::vector<int>& taken : paging_->taken) {
    for (const int page : taken) paging_->free.give_back(page);
    taken.clear();
  }
  upload_table();
}

std::vector<const Buffer*> KvCache::contents() const {
  std::vector<const Buffer*> buffers;
  for (const std::vector<Side>* sides : {&k_, &v_})
    for (const Side& side : *sides) {
      buffers.push_back(&side.rows);
      if (format_.quantized) buffers.push_back(&side.scales);
    }
  return buffers;
}

void KvCache::copy_from(const KvCache& other) {
  const std::vector<const Buffer*> to = contents(), from = other.contents();
  if (to.size() != from.size() || row_bytes_ != other.row_bytes_ || pages() != other.pages())
    throw std::logic_error("copy_from() needs a cache of the same format");
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i < to.size(); ++i) {
    if (to[i]->bytes() != from[i]->bytes())
      throw std::logic_error("copy_from() needs a cache of the same shape");
    bytes.resize(to[i]->bytes());
    device_.download(bytes.data(), from[i]->data(), bytes.size());
    device_.upload(to[i]->data(), bytes.data(), bytes.size(), device_.stream());
    device_.synchronize();
  }
  if (!paging_) return;
  paging_->free = other.paging_->free;
  paging_->taken = other.paging_->taken;
  upload_table();
}

void KvCache::read(const View& view, KvSide side, std::span<const int> sequence,
                   std::span<const int> position, void* to) const {
  const auto* rows = static_cast<const std::byte*>(side == KvSide::keys ? view.k : view.v);
  const float* scales = side == KvSide::keys ? view.k_scale : view.v_scale;
  std::vector<int> table;
  if (view.block_table) {
    const int last = *std::ranges::max_element(sequence);
    table.resize(static_cast<std::size_t>(last + 1) * static_cast<std::size_t>(view.pages));
    device_.download(table.data(), view.block_table, table.size() * sizeof(int));
  }
  const int block_keys = table.empty() ? view.capacity : format_.page_size;
  const std::int64_t heads = sequence_rows_ / capacity_,
                     head_dim = row_bytes_ / static_cast<std::int64_t>(size_of(stored_)),
                     head_bytes = head_dim * static_cast<std::int64_t>(size_of(read_dtype()));
  const auto block_of = [&](std::size_t i) {
    return table.empty() ? sequence[i] : table[sequence[i] * view.pages + position[i] / block_keys];
  };
  std::vector<std::byte> keys;
  std::vector<float> factors;
  for (std::size_t first = 0, end = 0; first < sequence.size(); first = end) {
    // Tokens whose rows of a head are adjacent are copied together.
    const std::int64_t block = block_of(first), slot = position[first] % block_keys;
    for (end = first + 1; end < sequence.size() && sequence[end] == sequence[first] &&
                          position[end] == position[end - 1] + 1 && block_of(end) == block;)
      ++end;
    const std::size_t count = end - first;
    for (std::int64_t head = 0; head < heads; ++head) {
      const std::int64_t head_row = (block * heads + head) * block_keys, row = head_row + slot;
      keys.resize(count * static_cast<std::size_t>(row_bytes_));
      read_rows(rows + head_row * row_bytes_, side, block_keys, slot, static_cast<std::int64_t>(count),
                keys.data());
      factors.resize(count);
      if (scales) device_.download(factors.data(), scales + row, count * sizeof(float));
      for (std::size_t i = 0; i < count; ++i) {
        const std::byte* from = keys.data() + i * static_cast<std::size_t>(row_bytes_);
        std::byte* out =
            static_cast<std::byte*>(to) + (static_cast<std::int64_t>(first + i) * heads + head) * head_bytes;
        if (!scales) {
          std::copy_n(from, row_bytes_, out);
          continue;
        }
        for (std::int64_t d = 0; d < head_dim; ++d)
          store(DType::fp32, out, d, load(stored_, from, d) * factors[i]);
      }
    }
  }
}

void KvCache::read_rows(const std::byte* head, KvSide side, std::int64_t keys, std::int64_t first,
                        std::int64_t count, std::byte* to) const {
  if (side == KvSide::values || format_.k_layout == KLayout::sd) {
    device_.download(to, head + first * row_bytes_, static_cast<std::size_t>(count * row_bytes_));
    return;
  }
  constexpr std::int64_t kVector = 16;  // bytes of x elements
  std::vector<std::byte> vectors(static_cast<std::size_t>(count * kVector));
  for (std::int64_t at = 0; at < row_bytes_; at += kVector) {
    device_.download(vectors.data(), head + at * keys + first * kVector, vectors.size());
    for (std::int64_t i = 0; i < count; ++i)
      std::copy_n(vectors.data() + i * kVector, kVector, to + i * row_bytes_ + at);
  }
}

void KvCache::upload_table() {
  std::vector<int> table;
  for (const std::vector<int>& taken : paging_->taken) {
    table.insert(table.end(), taken.begin(), taken.end());
    table.resize(table.size() + static_cast<std::size_t>(pages()) - taken.size(), -1);
  }
  device_.upload(paging_->table.data(), table.data(), paging_->table.bytes(), device_.stream());
  device_.synchronize();
}

double KvCache::bytes(const ModelConfig& c, DType dtype, const KvFormat& format, int layers, int batch,
                      int capacity) {
  const auto row =
      static_cast<double>(bytes_of_row(c, dtype, format)) + (format.quantized ? sizeof(float) : 0);
  const double keys = static_cast<double>(batch) * whole_pages(format, capacity);
  const double table = format.page_size == 0 ? 0 : keys / format.page_size * sizeof(int);
  return 2.0 * layers * c.kv_heads * keys * row + table;
}

/// Shuffles the pages, as in a pool after long use: nothing may rely on adjacent pages.
PageAllocator::PageAllocator(int pages) : free_(static_cast<std::size_t>(pages)) {
  std::iota(free_.begin(), free_.end(), 0);
  for (std::size_t i = free_.size(); i > 1; --i) std::swap(free_[i - 1], free_[random_bits(1, i) % i]);
}

int PageAllocator::take() {
  if (free_.empty()) throw ResourceError("the KV cache has no free page");
  const int page = free_.back();
  free_.pop_back();
  return page;
}

}  // namespace warptune
