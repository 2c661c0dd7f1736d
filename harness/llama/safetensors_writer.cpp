#include "harness/llama/safetensors_writer.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "harness/llama/safetensors.h"

namespace warptune {

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
  if (!file_)
    throw std::runtime_error(
        fmt::format("{} cannot be written: {}", partial_.string(), std::strerror(errno)));
}

}  // namespace warptune
