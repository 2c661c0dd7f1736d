#include "harness/llama/safetensors.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "harness/core/brief.h"
#include "harness/core/error.h"
#include "harness/core/input_file.h"
#include "harness/core/json.h"

namespace warptune {

namespace {

using Json = nlohmann::json;
constexpr std::uint64_t kMaxHeader = 100'000'000;  // the limit of the format

constexpr std::pair<DType, std::string_view> kStored[] = {
    {DType::fp32, "F32"}, {DType::fp16, "F16"}, {DType::bf16, "BF16"}, {DType::int32, "I32"}};

/// An integer that is not negative and fits in int64, else nothing.
bool to_size(const Json& value, std::uint64_t& size) {
  if (!value.is_number_unsigned()) return false;
  size = value.get<std::uint64_t>();
  return size <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
}

StoredTensor parse_tensor(const Json& entry, std::span<const std::byte> data, const std::string& where) {
  const auto bad = [&](const std::string& what) { return InputError(where + " " + what); };
  if (!entry.is_object() || !entry.contains("dtype") || !entry["dtype"].is_string())
    throw bad("has no dtype");
  StoredTensor tensor{.dtype = entry["dtype"].get<std::string>()};
  const auto size = static_cast<std::uint64_t>(stored_bytes(tensor.dtype));
  if (size == 0) throw bad(fmt::format("has the unknown dtype '{}'", brief(tensor.dtype)));

  if (!entry.contains("shape") || !entry["shape"].is_array()) throw bad("has no shape");
  std::uint64_t bytes = size;
  for (const Json& value : entry["shape"]) {
    std::uint64_t extent = 0;
    if (!to_size(value, extent) || __builtin_mul_overflow(bytes, extent, &bytes))
      throw bad(fmt::format("has the impossible shape {}", brief(entry["shape"].dump())));
    tensor.shape.push_back(static_cast<std::int64_t>(extent));
  }

  std::uint64_t begin = 0, end = 0;
  if (!entry.contains("data_offsets") || !entry["data_offsets"].is_array() ||
      entry["data_offsets"].size() != 2 || !to_size(entry["data_offsets"][0], begin) ||
      !to_size(entry["data_offsets"][1], end) || begin > end)
    throw bad("has no data_offsets [begin, end]");
  if (end > data.size())
    throw bad(fmt::format("ends at byte {} of {}: the file is truncated", end, data.size()));
  if (end - begin != bytes)
    throw bad(fmt::format("has {} bytes; shape {} of {} needs {}", end - begin, brief(entry["shape"].dump()),
                          tensor.dtype, bytes));
  tensor.data = data.subspan(begin, bytes);
  return tensor;
}

}  // namespace

void reject_overlaps(const std::map<std::string, StoredTensor>& tensors, const std::string& origin) {
  std::vector<std::pair<std::span<const std::byte>, const std::string*>> spans;
  for (const auto& [name, tensor] : tensors)
    if (!tensor.data.empty()) spans.emplace_back(tensor.data, &name);
  std::ranges::sort(spans, {}, [](const auto& s) { return s.first.data(); });
  for (std::size_t i = 1; i < spans.size(); ++i)
    if (spans[i - 1].first.data() + spans[i - 1].first.size() > spans[i].first.data())
      throw InputError("{}: tensors '{}' and '{}' overlap", origin, brief(*spans[i - 1].second),
                       brief(*spans[i].second));
}

std::string stored_name(DType dtype) {
  for (const auto& [known, name] : kStored)
    if (known == dtype) return std::string(name);
  throw std::logic_error("a tensor of this dtype is not written");
}

std::optional<DType> dtype_stored_as(std::string_view name) {
  for (const auto& [dtype, known] : kStored)
    if (known == name) return dtype;
  return std::nullopt;
}

DType float_dtype(const StoredTensor& tensor, const std::string& name) {
  if (const auto dtype = dtype_stored_as(tensor.dtype); dtype && is_float(*dtype)) return *dtype;
  throw InputError("tensor '{}' is stored as {}; F32, F16 and BF16 are read", name, tensor.dtype);
}

std::int64_t stored_bytes(const std::string& dtype) {
  static const std::map<std::string, std::int64_t> sizes = {
      {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"U16", 2}, {"I16", 2}, {"F16", 2},
      {"BF16", 2}, {"U32", 4}, {"I32", 4}, {"F32", 4},     {"U64", 8},     {"I64", 8}, {"F64", 8}};
  const auto it = sizes.find(dtype);
  return it == sizes.end() ? 0 : it->second;
}

MappedFile::MappedFile(const std::filesystem::path& path) {
  const InputFile file(path, path.string());
  size_ = static_cast<std::size_t>(file.size());
  void* data = size_ == 0 ? nullptr : mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.descriptor(), 0);
  if (data == MAP_FAILED) throw InputError("{} cannot be read: {}", path.string(), std::strerror(errno));
  data_ = static_cast<const std::byte*>(data);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile::~MappedFile() {
  if (data_) munmap(const_cast<std::byte*>(data_), size_);
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : path_(path), file_(path) {
  const std::string origin = path.string();
  const auto bytes = file_.bytes();
  std::uint64_t length = 0;
  if (bytes.size() < sizeof(length))
    throw InputError("{}: the file has {} bytes; it is truncated", origin, bytes.size());
  std::memcpy(&length, bytes.data(), sizeof(length));
  const auto* text = reinterpret_cast<const char*>(bytes.data());
  if (length > kMaxHeader) {
    const std::string_view format = foreign_format({text, std::min<std::size_t>(bytes.size(), 64)});
    throw InputError(format.empty() ? fmt::format("{}: the header is said to have {} bytes; this is not a "
                                                  "safetensors file",
                                                  origin, length)
                                    : fmt::format("{}: this is {}", origin, format));
  }
  if (length > bytes.size() - sizeof(length))
    throw InputError("{}: the header has {} bytes, the file only {}: it is truncated", origin, length,
                     bytes.size() - sizeof(length));
  const Json header =
      need_json_object(std::string_view(text + sizeof(length), length), origin + ": the header");
  const auto data = bytes.subspan(sizeof(length) + length);
  for (const auto& [name, entry] : header.items())
    if (name != "__metadata__")
      tensors_.emplace(name, parse_tensor(entry, data, fmt::format("{}: tensor '{}'", origin, brief(name))));
  reject_overlaps(tensors_, origin);
}

std::int64_t TensorLayout::bytes() const {
  std::int64_t bytes = stored_bytes(dtype);
  for (const std::int64_t extent : shape) bytes *= extent;
  return bytes;
}

SafetensorsWriter::SafetensorsWriter(std::filesystem::path path, std::span<const TensorLayout> tensors)
    : path_(std::move(path)), partial_(path_.string() + ".partial") {
  nlohmann::json header = {{"__metadata__", {{"format", "pt"}}}};  // which transformers 4 demands
  std::int64_t at = 0;
  for (const TensorLayout& tensor : tensors) {
    const std::int64_t end = at + tensor.bytes();
    header[tensor.name] = {{"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {at, end}}};
    if (!parts_.emplace(tensor.name, Part{at, end}).second)
      throw std::logic_error("two tensors are named " + tensor.name);
    at = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // the format aligns the data to 8 bytes
  const std::uint64_t length = text.size();
  for (auto& [name, part] : parts_) {
    part.next += static_cast<std::int64_t>(sizeof(length) + length);
    part.end += static_cast<std::int64_t>(sizeof(length) + length);
  }
  file_.open(partial_, std::ios::binary | std::ios::trunc);
  file_.write(reinterpret_cast<const char*>(&length), sizeof(length));
  file_.write(text.data(), static_cast<std::streamsize>(length));
  check();
}

SafetensorsWriter::~SafetensorsWriter() {
  file_.close();
  std::error_code none;  // after finish() the file is not there
  std::filesystem::remove(partial_, none);
}

void SafetensorsWriter::append(const std::string& name, std::span<const std::byte> bytes) {
  Part& part = parts_.at(name);
  const auto size = static_cast<std::int64_t>(bytes.size());
  if (size > part.end - part.next) throw std::logic_error("too many elements for " + name);
  file_.seekp(part.next);
  file_.write(reinterpret_cast<const char*>(bytes.data()), size);
  check();
  part.next += size;
}

void SafetensorsWriter::finish() {
  for (const auto& [name, part] : parts_)
    if (part.next != part.end) throw std::logic_error("too few elements for " + name);
  file_.close();
  check();
  std::filesystem::rename(partial_, path_);
}

void SafetensorsWriter::check() const {
  if (!file_) throw TextError("{} cannot be written: {}", partial_.string(), std::strerror(errno));
}

}  // namespace warptune
