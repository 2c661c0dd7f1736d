#include "harness/llama/weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "harness/core/error.h"
#include "harness/core/parallel.h"
#include "harness/llama/checkpoint.h"
#include "harness/llama/gguf.h"
#include "harness/llama/quantized_matrix.h"
#include "harness/llama/tensor_parallel.h"

namespace warptune {
namespace {

constexpr int kLoadThreads = 8;

template <class From, class To>
void convert(const std::byte* from, std::byte* to, std::int64_t count, float multiplier) {
  for (std::int64_t i = 0; i < count; ++i) {
    From value;
    std::memcpy(&value, from + i * static_cast<std::int64_t>(sizeof(From)), sizeof(From));
    const To rounded = static_cast<To>(static_cast<float>(value) * multiplier);
    std::memcpy(to + i * static_cast<std::int64_t>(sizeof(To)), &rounded, sizeof(To));
  }
}

Parts with_suffix(Parts parts, const char* suffix) {
  for (auto& [name, rows] : parts) name += suffix;
  return parts;
}

/// Reads tensors of a checkpoint into device memory.
class Loader {
 public:
  Loader(Device& device, const std::optional<QuantizationConfig>& quantization, DType dtype,
         const std::filesystem::path& folder, std::size_t staging_bytes)
      : device_(device),
        quantization_(quantization),
        dtype_(dtype),
        checkpoint_(folder),
        staging_(staging_bytes > 0 ? device.upload_staging(staging_bytes) : nullptr) {}

  /// Concatenates tensors into one fused matrix. All have `columns` columns (0: vectors). `multiplier`: of
  /// every element, before it is rounded.
  Buffer load(const Parts& parts, const Slice& columns, double multiplier = 1) {
    multiplier_ = static_cast<float>(multiplier);
    std::int64_t rows = 0;
    for (const auto& part : parts) rows += part.second.count;
    const std::size_t size = size_of(dtype_);
    const auto row_bytes = static_cast<std::size_t>(std::max<std::int64_t>(columns.count, 1)) * size;
    Buffer buffer = device_.allocate(static_cast<std::size_t>(rows) * row_bytes);
    auto* to = buffer.as<std::byte>();
    for (const auto& [name, part_rows] : parts) {
      const StoredTensor& tensor = checkpoint_.tensor(name, shape_of(part_rows, columns));
      if (needs_expansion(tensor)) {  // blocks may lie across the columns of ranks
        const std::vector<float> values = expanded(*sliced(tensor, part_rows, columns.stored));
        const StoredTensor rows_of_part{.dtype = "F32",
                                        .shape = shape_of(part_rows.count, columns),
                                        .data = std::as_bytes(std::span(values))};
        upload(sliced(rows_of_part, part_rows.count, columns)->data, DType::fp32, to);
        device_.synchronize();  // the values end here
      } else {
        const auto part = sliced(tensor, part_rows, columns);
        upload(part->data, float_dtype(tensor, name), to);
        if (!columns.is_whole()) device_.synchronize();  // the copy ends here
      }
      to += static_cast<std::size_t>(part_rows.count) * row_bytes;
    }
    return buffer;
  }
  Buffer matrix(const std::string& name, std::int64_t rows, std::int64_t columns, double multiplier) {
    return load({{name, rows}}, columns, multiplier);
  }
  /// As a quantized checkpoint has them, else in `format`.
  Matrix modules(const Modules& modules, const WeightFormat& format = {}) {
    const auto& [parts, columns] = modules;
    if (quantization_) {
      if (auto matrix = read_quantized(checkpoint_, *quantization_, parts, columns)) {
        for (std::string& note : matrix->notes) notes_.push_back(std::move(note));
        matrix->format.fp8_activations = format.fp8_activations && matrix->format.weights == kWeightsFp8;
        return uploaded_matrix(*matrix);
      }
    }
    const Parts tensors = with_suffix(parts, ".weight");
    if (!format.quantized() || quantization_) {
      for (const auto& [name, count] : tensors)
        if (const BlockType* type = find_block_type(checkpoint_.tensor(name, shape_of(count, columns)).dtype);
            type && type->values > 1)
          ++expanded_[type->name];
      return {.weight = load(tensors, columns)};
    }
    std::vector<std::vector<float>> buffers;
    std::vector<FloatRows> rows;
    for (const auto& [name, count] : tensors) {
      const StoredTensor& tensor = checkpoint_.tensor(name, shape_of(count, columns));
      if (needs_expansion(tensor))
        rows.push_back(
            {DType::fp32, count, std::as_bytes(std::span(buffers.emplace_back(expanded(tensor)))).data()});
      else
        rows.push_back({float_dtype(tensor, name), count, tensor.data.data()});
    }
    return uploaded_matrix(quantize(format, rows, columns));
  }
  Buffer vector(const std::string& name, std::int64_t length, double multiplier = 1) {
    return load({{name, length}}, 0, multiplier);
  }
  bool has(const std::string& name) const { return checkpoint_.has(name); }
  /// Of notes on several tensors only the first.
  std::vector<std::string> notes() const {
    std::vector<std::string> all;
    if (!expanded_.empty()) {
      std::vector<std::string> counts;
      for (const auto& [type, count] : expanded_) counts.push_back(fmt::format("{} of {}", count, type));
      all.push_back(
          fmt::format("matrices of this file with parts of several types ({}) are dequantized to {}",
                      fmt::join(counts, ", "), name_of(dtype_)));
    }
    if (notes_.size() == 1) all = notes_;
    if (notes_.size() > 1)
      all.push_back(fmt::format("{}; in all {} tensors have such", notes_.front(), notes_.size()));
    if (!checkpoint_.note().empty()) all.push_back(checkpoint_.note());
    return all;
  }
  /// Whether two matrices hold the same bytes.
  bool equal(const std::string& a, const std::string& b, std::int64_t rows, std::int64_t columns) const {
    const StoredTensor &x = checkpoint_.tensor(a, {rows, columns}),
                       &y = checkpoint_.tensor(b, {rows, columns});
    return x.dtype == y.dtype && std::memcmp(x.data.data(), y.data.data(), x.data.size()) == 0;
  }

 private:
  /// The shape of the whole tensor; columns 0: a vector.
  static std::vector<std::int64_t> shape_of(const Slice& rows, const Slice& columns) {
    if (columns.stored == 0) return {rows.stored};
    return {rows.stored, columns.stored};
  }
  Matrix uploaded_matrix(const QuantizedMatrix& matrix) {
    const auto to_device = [&](std::span<const std::byte> bytes) {
      return bytes.empty() ? Buffer() : uploaded(device_, bytes);
    };
    return {.format = matrix.format,
            .weight = to_device(matrix.weight),
            .scales = to_device(matrix.scales),
            .zeros = to_device(std::as_bytes(std::span(matrix.zeros))),
            .order = to_device(std::as_bytes(std::span(matrix.order))),
            .row_scales = to_device(std::as_bytes(std::span(matrix.row_scales)))};
  }

  void upload(std::span<const std::byte> data, DType from, std::byte* to) {
    const std::size_t count = data.size() / size_of(from);
    if (staging_) {
      upload_staged(data.data(), from, count, to);
    } else if (from == dtype_ && multiplier_ == 1) {
      device_.upload(to, data.data(), data.size(), device_.stream());
    } else {
      converted_.resize(count * size_of(dtype_));
      fill(data.data(), from, count, converted_.data());
      device_.upload(to, converted_.data(), converted_.size(), device_.stream());
      device_.synchronize();  // the next tensor overwrites it
    }
  }

  /// Fills one buffer from the mapped file, which reads the disk, while the device copies from the other.
  void upload_staged(const std::byte* data, DType from, std::size_t count, std::byte* to) {
    for (std::size_t done = 0; done < count;) {
      const std::span<std::byte> buffer = staging_->next();
      const std::size_t part = std::min(count - done, buffer.size() / size_of(dtype_));
      fill(data + done * size_of(from), from, part, buffer.data());
      staging_->send(to + done * size_of(dtype_), part * size_of(dtype_));
      done += part;
    }
  }

  /// Copies elements and converts them to the dtype of the run, on several threads: one thread takes the page
  /// faults of a mapped file more slowly than the bus takes the data.
  void fill(const std::byte* data, DType from, std::size_t count, std::byte* to) const {
    constexpr std::size_t kSlice = std::size_t{1} << 18;  // elements
    const auto slices = static_cast<std::int64_t>((count + kSlice - 1) / kSlice);
    parallel_for(slices, kLoadThreads, [&](std::int64_t slice) {
      const std::size_t first = static_cast<std::size_t>(slice) * kSlice;
      fill_slice(data + first * size_of(from), from, std::min(kSlice, count - first),
                 to + first * size_of(dtype_));
    });
  }

  void fill_slice(const std::byte* data, DType from, std::size_t count, std::byte* to) const {
    if (from == dtype_ && multiplier_ == 1) {
      std::memcpy(to, data, count * size_of(from));
      return;
    }
    with_float_dtype(from, [&]<class From>() {
      with_float_dtype(dtype_, [&]<class To>() {
        convert<From, To>(data, to, static_cast<std::int64_t>(count), multiplier_);
      });
    });
  }

  Device& device_;
  const std::optional<QuantizationConfig>& quantization_;
  DType dtype_;
  float multiplier_ = 1;  // of the tensors that are loaded now
  Checkpoint checkpoint_;
  std::unique_ptr<UploadStaging> staging_;  // null: uploads from pageable memory
  std::vector<std::byte> converted_;
  std::map<std::string_view, int> expanded_;  // matrices by their type of GGUF
  std::vector<std::string> notes_;
};

}  // namespace

Buffer uploaded(Device& device, std::span<const std::byte> bytes) {
  Buffer buffer = device.allocate(bytes.size());
  device.upload(buffer.data(), bytes.data(), bytes.size(), device.stream());
  device.synchronize();
  return buffer;
}

double weight_bytes(const ModelConfig& c, DType dtype) {
  const double hidden = c.hidden;
  const auto layer = [&](const LayerFormats& f) {
    const int apart = f.has_v_apart() ? c.kv_width() : 0;
    return matrix_bytes(f.qk, dtype, c.qkv_width() - apart, c.hidden) +
           (apart > 0 ? matrix_bytes(f.v, dtype, apart, c.hidden) : 0) +
           matrix_bytes(f.o, dtype, c.hidden, c.q_width()) +
           matrix_bytes(f.gate_up, dtype, 2LL * c.intermediate, c.hidden) +
           matrix_bytes(f.down, dtype, c.hidden, c.intermediate);
  };
  double bytes = 0;
  for (int i = 0; i < c.layers; ++i) bytes += layer(c.formats_of(i));
  if (!c.tied_embeddings) bytes += matrix_bytes(c.head_format, dtype, head_rows(c), c.hidden);
  double vectors = 2 * hidden;
  if (c.qkv_bias) vectors += c.qkv_width();
  if (c.o_bias) vectors += hidden;
  if (c.mlp_bias) vectors += 2.0 * c.intermediate + hidden;
  if (c.qk_norm) vectors += 2.0 * c.head_dim;
  return bytes + (c.layers * vectors + hidden + c.vocab * hidden) * static_cast<double>(size_of(dtype));
}

std::string load_line(double bytes, double seconds) {
  const bool large = bytes >= 1e9;
  return fmt::format("weights: {:.1f} {} in {:.2f} s, {:.1f} GB/s", bytes / (large ? 1e9 : 1e6),
                     large ? "GB" : "MB", seconds, bytes / seconds * 1e-9);
}

ModelConfig read_model(const std::filesystem::path& folder) {
  ModelConfig c = is_gguf(folder) ? GgufModel(folder).config() : read_model_config(folder / "config.json");
  if (!c.quantization) return c;
  std::optional<Checkpoint> checkpoint;
  if (Checkpoint::is_in(folder)) checkpoint.emplace(folder);
  const auto format_of = [&](const Modules& modules) {
    const auto format = checkpoint ? find_format(*checkpoint, *c.quantization, modules.parts, modules.columns)
                                   : declared_format(*c.quantization, modules.parts);
    return format.value_or(WeightFormat{});
  };
  for (int i = 0; i < c.layers; ++i) {
    const LayerModules m = layer_modules(c, i);
    LayerFormats layer{.qk = format_of(m.qk),
                       .o = format_of(m.o),
                       .gate_up = format_of(m.gate_up),
                       .down = format_of(m.down)};
    layer.v = m.v.parts.empty() ? layer.qk : format_of(m.v);
    // Zero points that are all 8 are none, except in a matrix with others.
    LayerFormats joined = layer;
    joined.qk.zeros = joined.v.zeros = layer.qk.zeros || layer.v.zeros;
    if (!joined.has_v_apart()) layer = joined;
    for (const WeightFormat& format : {layer.o, layer.qk, layer.v, layer.down, layer.gate_up})
      if (!c.weights.quantized()) c.weights = format;
    c.layer_formats.push_back(layer);
  }
  if (!c.tied_embeddings && checkpoint) c.head_format = format_of(head_module(c));
  return c;
}

Weights load_weights(Device& device, const ModelConfig& c, DType dtype, const std::filesystem::path& folder,
                     std::size_t staging_bytes) {
  // A small model needs no large buffers; page-locking takes time.
  staging_bytes = std::min(staging_bytes, static_cast<std::size_t>(weight_bytes(c, dtype)));
  Loader loader(device, c.quantization, dtype, folder, staging_bytes);
  Weights w{.dtype = dtype};
  if (c.quantization) w.notes = c.quantization->notes;
  const std::string embedding = "model.embed_tokens.weight", head = "lm_head.weight";
  // A tied model needs one of the two.
  const bool only_head = c.tied_embeddings && !loader.has(embedding) && loader.has(head);
  if (c.tied_embeddings && !only_head && loader.has(head) &&
      !loader.equal(embedding, head, c.vocab, c.hidden))
    w.notes.push_back(
        fmt::format("{}: '{}' is not used: tie_word_embeddings is true, and it differs from '{}'",
                    folder.string(), head, embedding));
  w.embedding = loader.matrix(only_head ? head : embedding, c.vocab, c.hidden, c.embedding_multiplier);
  for (int i = 0; i < c.layers; ++i) {
    const std::string layer = fmt::format("model.layers.{}.", i);
    const LayerModules m = layer_modules(c, i);
    LayerWeights l;
    l.input_norm = loader.vector(layer + "input_layernorm.weight", c.hidden);
    const bool has_v_apart = c.formats_of(i).has_v_apart();
    l.qkv = loader.modules(has_v_apart ? m.qk : m.qkv(), c.weights);
    if (has_v_apart) l.v = loader.modules(m.v, c.weights);
    l.o = loader.modules(m.o, c.weights);
    // `once`: one of the ranks adds it, the others add 0.
    const auto bias = [&](bool has, const Modules& modules, bool once) {
      if (!has) return Buffer();
      return loader.load(with_suffix(modules.parts, ".bias"), 0, once && c.shard.rank > 0 ? 0 : 1);
    };
    l.qkv_bias = bias(c.qkv_bias, m.qkv(), false);
    l.o_bias = bias(c.o_bias, m.o, true);
    l.gate_up_bias = bias(c.mlp_bias, m.gate_up, false);
    l.down_bias = bias(c.mlp_bias, m.down, true);
    if (c.qk_norm)
      l.qk_norm = loader.load(
          {{layer + "self_attn.q_norm.weight", c.head_dim}, {layer + "self_attn.k_norm.weight", c.head_dim}},
          0);
    l.attention_norm = loader.vector(layer + "post_attention_layernorm.weight", c.hidden);
    l.gate_up = loader.modules(m.gate_up, c.weights);
    l.down = loader.modules(m.down, c.weights);
    w.layers.push_back(std::move(l));
  }
  // A tied head multiplies by the embedding with its multiplier.
  const double of_head = c.tied_embeddings ? c.embedding_multiplier : 1;
  w.final_norm = loader.vector("model.norm.weight", c.hidden, c.logits_multiplier / of_head);
  if (!c.tied_embeddings) w.lm_head = loader.modules(head_module(c));
  device.synchronize();
  std::ranges::move(loader.notes(), std::back_inserter(w.notes));
  return w;
}

}  // namespace warptune
