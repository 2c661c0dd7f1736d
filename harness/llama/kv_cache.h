#pragma once
// The KV cache of all layers: [batch, kv_heads, capacity, head_dim] each, or pages of [kv_heads, page_size,
// head_dim]; keys may have the layout [.., head_dim/x, capacity or page_size, x] with x of 16 bytes. A
// quantized cache also has a scale per row.
#include <optional>
#include <span>
#include <vector>

#include "harness/device/device.h"
#include "harness/llama/kv_format.h"
#include "harness/llama/model_config.h"

namespace warptune {

/// Allocates the pages of a pool, in random order.
class PageAllocator {
 public:
  explicit PageAllocator(int pages);
  /// Throws ResourceError if no page is free.
  int take();
  void give_back(int page) { free_.push_back(page); }
  int free() const { return static_cast<int>(free_.size()); }

 private:
  std::vector<int> free_;
};

enum class KvSide { keys, values };

class KvCache {
 public:
  /// For `batch` sequences of up to `capacity` keys, rounded up to whole pages. Contents are random and
  /// finite, so that a measurement may attend to keys that were never written.
  KvCache(Device& device, const ModelConfig& config, DType dtype, const KvFormat& format, int layers,
          int batch, int capacity);

  /// The device pointers of a layer for the sequences from `sequence` on; null for what the format does not
  /// have.
  struct View {
    void *k, *v;
    float *k_scale, *v_scale;
    const int* block_table;  // [batch, pages]
    int capacity, pages;     // per sequence
  };
  View view(int layer, int sequence = 0) const;
  /// Copies the keys or values of tokens to host memory: [tokens, kv_heads, head_dim] in read_dtype().
  /// `view`: of their layer; sequence[i] counts from the first sequence of the view.
  void read(const View& view, KvSide side, std::span<const int> sequence, std::span<const int> position,
            void* to) const;
  /// The dtype of the run; fp32 where the cache is quantized: codes are scaled.
  DType read_dtype() const { return format_.quantized ? DType::fp32 : stored_; }
  const KvFormat& format() const { return format_; }
  int layers() const { return static_cast<int>(k_.size()); }

  /// Allocates pages until sequence b holds keys[b] keys. Contiguous caches need no pages.
  void reserve(std::span<const int> keys);
  /// Frees all pages.
  void release();
  /// Copies contents and pages of a cache of the same shape and format, through host memory.
  void copy_from(const KvCache& other);

  /// The bytes of keys and values, scales and block table; a double, since those of a wrong config.json do
  /// not fit 64 bits.
  static double bytes(const ModelConfig& config, DType dtype, const KvFormat& format, int layers, int batch,
                      int capacity);

 private:
  struct Side {
    Buffer rows, scales;
  };
  std::vector<const Buffer*> contents() const;
  struct Paging {
    PageAllocator free;
    std::vector<std::vector<int>> taken;  // pages of each sequence
    Buffer table;                         // [batch, pages of a sequence], -1 for no page
  };
  int pages() const { return format_.page_size == 0 ? 0 : capacity_ / format_.page_size; }
  void upload_table();
  /// Copies the rows of keys [first, first + count) of one KV head to adjacent host memory.
  /// `head`: its `keys` rows in a sequence or page.
  void read_rows(const std::byte* head, KvSide side, std::int64_t keys, std::int64_t first,
                 std::int64_t count, std::byte* to) const;

  Device& device_;
  KvFormat format_;
  DType stored_;
  int capacity_;
  std::int64_t sequence_rows_, row_bytes_;
  std::vector<Side> k_, v_;  // one of each layer
  std::optional<Paging> paging_;
};

}  // namespace warptune
