#include "harness/llama/gguf.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "harness/core/brief.h"
#include "harness/core/error.h"
#include "harness/core/input_file.h"

namespace warptune {
namespace {

using Json = nlohmann::json;

constexpr std::uint32_t kMaxExtents = 4;
constexpr std::uint64_t kKeysOffset = 16;  // of their count: after "GGUF", the version, the count of tensors
constexpr std::uint64_t kMaxExtent = std::uint64_t{1} << 40;

/// The types of metadata, in the order of their numbers.
enum class Type : std::uint32_t { u8, i8, u16, i16, u32, i32, f32, flag, text, array, u64, i64, f64 };

/// Reads the header from its beginning.
class Reader {
 public:
  Reader(std::span<const std::byte> bytes, const std::string& origin) : bytes_(bytes), origin_(origin) {}

  std::span<const std::byte> take(std::uint64_t count) {
    if (count > bytes_.size() - at_)
      throw InputError("{}: the header goes beyond the file's {} bytes: it is truncated", origin_,
                       bytes_.size());
    at_ += count;
    return bytes_.subspan(at_ - count, count);
  }
  template <class T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::string text() {
    const auto bytes = take(number<std::uint64_t>());
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  /// A value of the metadata; an array is skipped where `arrays` is false.
  Json value(const std::string& key, Type type, bool arrays) {
    switch (type) {
      case Type::u8:
        return number<std::uint8_t>();
      case Type::i8:
        return number<std::int8_t>();
      case Type::u16:
        return number<std::uint16_t>();
      case Type::i16:
        return number<std::int16_t>();
      case Type::u32:
        return number<std::uint32_t>();
      case Type::i32:
        return number<std::int32_t>();
      case Type::f32:
        return number<float>();
      case Type::flag:
        return number<std::uint8_t>() != 0;
      case Type::text:
        return text();
      case Type::u64:
        return number<std::uint64_t>();
      case Type::i64:
        return number<std::int64_t>();
      case Type::f64:
        return number<double>();
      case Type::array:
        break;
    }
    if (type != Type::array) bad_type(key, type);
    const auto element = static_cast<Type>(number<std::uint32_t>());
    if (element == Type::array) bad_type(key, element);
    Json array = arrays ? Json::array() : Json();
    for (auto count = number<std::uint64_t>(); count > 0; --count) {
      Json one = value(key, element, false);
      if (arrays) array.push_back(std::move(one));
    }
    return array;
  }
  std::uint64_t position() const { return at_; }

 private:
  [[noreturn]] void bad_type(const std::string& key, Type type) const {
    throw InputError("{}: '{}' has a value of type {}, which cannot be read", origin_, brief(key),
                     static_cast<std::uint32_t>(type));
  }

  std::span<const std::byte> bytes_;
  const std::string& origin_;
  std::uint64_t at_ = 0;
};

struct Entry {
  std::string name;
  StoredTensor tensor;
  std::uint64_t offset, bytes;
};

Entry read_entry(Reader& in, const std::string& origin) {
  Entry entry{.name = in.text(), .tensor = {}, .offset = 0, .bytes = 0};
  const auto bad = [&](const std::string& what) {
    return InputError("{}: tensor '{}' {}", origin, brief(entry.name), what);
  };
  const auto extents = in.number<std::uint32_t>();
  if (extents == 0 || extents > kMaxExtents)
    throw bad(fmt::format("has {} extents; 1 to 4 are read", extents));
  std::uint64_t elements = 1;
  for (std::uint32_t i = 0; i < extents; ++i) {
    const auto extent = in.number<std::uint64_t>();
    if (extent == 0 || extent > kMaxExtent || __builtin_mul_overflow(elements, extent, &elements))
      throw bad(fmt::format("has the impossible extent {}", extent));
    entry.tensor.shape.insert(entry.tensor.shape.begin(), static_cast<std::int64_t>(extent));
  }
  const auto id = in.number<std::uint32_t>();
  const BlockType* const type = find_block_type(id);
  if (!type) throw bad(fmt::format("has the type {}; {} can be read", id, block_type_names()));
  const std::int64_t columns = entry.tensor.shape.back();
  if (columns % type->values != 0)
    throw bad(fmt::format("has {} columns; those of {} must be a multiple of {}", columns, type->name,
                          type->values));
  if (extents == 1 && type->values > 1)
    throw bad(fmt::format("is a vector of {}; vectors can be read in F32, F16 and BF16", type->name));
  entry.tensor.dtype = type->name;
  if (__builtin_mul_overflow(elements / static_cast<std::uint64_t>(type->values),
                             static_cast<std::uint64_t>(type->bytes), &entry.bytes))
    throw bad("is impossibly large");
  entry.offset = in.number<std::uint64_t>();
  return entry;
}

}  // namespace

GgufFile::GgufFile(const std::filesystem::path& path) : path_(path), file_(path) {
  const auto bytes = file_.bytes();
  const std::string_view start(reinterpret_cast<const char*>(bytes.data()),
                               std::min<std::size_t>(bytes.size(), 64));
  if (!start.starts_with("GGUF")) {
    const std::string_view format = foreign_format(start);
    throw InputError("{}: this is {}", origin(),
                     format.empty() ? "no GGUF file, which begins with 'GGUF'; --model takes one, "
                                      "or the folder of a checkpoint"
                                    : format);
  }
  const std::string name = origin();
  Reader in(bytes, name);
  in.take(4);
  if (const auto version = in.number<std::uint32_t>(); version != 2 && version != 3)
    throw InputError("{}: version {} of GGUF cannot be read; 2 and 3 can, little-endian", name, version);
  const auto tensors = in.number<std::uint64_t>(), keys = in.number<std::uint64_t>();
  for (std::uint64_t i = 0; i < keys; ++i) {
    const std::string key = in.text();
    const auto type = static_cast<Type>(in.number<std::uint32_t>());
    metadata_[key] = in.value(key, type, false);
  }
  std::vector<Entry> entries;
  for (std::uint64_t i = 0; i < tensors; ++i) entries.push_back(read_entry(in, name));

  const Json alignment = metadata_.value("general.alignment", Json(32));
  if (!alignment.is_number_unsigned() && !(alignment.is_number_integer() && alignment > 0))
    throw InputError("{}: 'general.alignment' must be a power of two", name);
  const auto align = alignment.get<std::uint64_t>();
  if (align == 0 || (align & (align - 1)) != 0 || align > 1 << 20)
    throw InputError("{}: 'general.alignment' is {}; it must be a power of two", name, align);
  const std::uint64_t begin = (in.position() + align - 1) / align * align;
  const auto data = bytes.subspan(std::min<std::uint64_t>(begin, bytes.size()));
  for (Entry& entry : entries) {
    if (entry.offset % align != 0)
      throw InputError("{}: tensor '{}' begins at {}; that must be a multiple of {}", name, brief(entry.name),
                       entry.offset, align);
    if (entry.offset > data.size() || entry.bytes > data.size() - entry.offset)
      throw InputError("{}: tensor '{}' ends beyond the file's {} bytes: it is truncated", name,
                       brief(entry.name), bytes.size());
    entry.tensor.data = data.subspan(entry.offset, entry.bytes);
    if (!tensors_.emplace(entry.name, std::move(entry.tensor)).second)
      throw InputError("{}: tensor '{}' is there twice", name, brief(entry.name));
  }
  reject_overlaps(tensors_, name);
}

nlohmann::json GgufFile::tokenizer() const {
  const std::string name = origin();
  Reader in(file_.bytes(), name);
  in.take(kKeysOffset);
  Json tokenizer = Json::object();
  for (auto keys = in.number<std::uint64_t>(); keys > 0; --keys) {
    const std::string key = in.text();
    const auto type = static_cast<Type>(in.number<std::uint32_t>());
    const bool is_wanted = key.starts_with("tokenizer.");
    Json value = in.value(key, type, is_wanted);
    if (is_wanted) tokenizer[key] = std::move(value);
  }
  return tokenizer;
}

}  // namespace warptune
