#include "harness/llama/checkpoint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "harness/core/brief.h"
#include "harness/core/error.h"
#include "harness/core/input_file.h"
#include "harness/core/json.h"

namespace warptune {
namespace {

using Json = nlohmann::json;

constexpr const char *kSingle = "model.safetensors", *kIndex = "model.safetensors.index.json";

/// The shard of each tensor by the index of a checkpoint.
std::map<std::string, std::string> shards_of(const std::filesystem::path& index) {
  const Json json = need_json_object(read_input(index, index.string(), kMaxIndexBytes), index.string());
  if (!json.contains("weight_map") || !json["weight_map"].is_object())
    throw InputError("{}: there is no object 'weight_map'", index.string());
  std::map<std::string, std::string> shards;
  for (const auto& [tensor, shard] : json["weight_map"].items()) {
    if (!shard.is_string() || shard.get<std::string>().find('/') != std::string::npos)
      throw InputError("{}: the shard of '{}' is {}; it must be a file name", index.string(), brief(tensor),
                       brief(shard.dump()));
    shards[tensor] = shard.get<std::string>();
  }
  return shards;
}

}  // namespace

bool Checkpoint::is_in(const std::filesystem::path& path) {
  return is_gguf(path) || std::filesystem::exists(path / kSingle) || std::filesystem::exists(path / kIndex);
}

Checkpoint::Checkpoint(const std::filesystem::path& path) : path_(path) {
  if (!is_gguf(path)) {
    open_folder();
    return;
  }
  gguf_.emplace(path);
  for (const auto& [name, tensor] : gguf_->tensors()) tensors_.emplace(name, &tensor);
}

void Checkpoint::open_folder() {
  const auto single = path_ / kSingle, index = path_ / kIndex;
  const bool has_single = std::filesystem::exists(single), has_index = std::filesystem::exists(index);
  if (!has_single && !has_index)
    throw InputError("{} has neither {} nor {}", path_.string(), kSingle, kIndex);
  const auto shards = has_index ? shards_of(index) : std::map<std::string, std::string>{};
  const bool has_shards = std::ranges::any_of(
      shards, [&](const auto& entry) { return std::filesystem::exists(path_ / entry.second); });
  if (has_single && !has_shards) {
    for (const auto& [name, tensor] : open(kSingle).tensors()) tensors_.emplace(name, &tensor);
    if (has_index)
      note_ = fmt::format("{} is read: the files that {} names are absent", single.string(), kIndex);
    return;
  }
  for (const auto& [name, shard] : shards) {  // whatever else the shards hold
    const auto& in_shard = open(shard).tensors();
    const auto it = in_shard.find(name);
    if (it == in_shard.end())
      throw InputError("{}: tensor '{}' is not in '{}'", index.string(), brief(name), brief(shard));
    tensors_.emplace(name, &it->second);
  }
  if (has_single && !files_.contains(kSingle))
    note_ = fmt::format("{} is not read: {} names other files", single.string(), kIndex);
}

const SafetensorsFile& Checkpoint::open(const std::string& name) {
  const auto it = files_.find(name);
  return it != files_.end() ? it->second : files_.emplace(name, path_ / name).first->second;
}

const StoredTensor& Checkpoint::tensor(const std::string& name,
                                       const std::vector<std::int64_t>& shape) const {
  const auto it = tensors_.find(name);
  if (it == tensors_.end()) throw InputError("{}: tensor '{}' is missing", path_.string(), name);
  if (it->second->shape != shape)
    throw InputError("{}: tensor '{}' has shape [{}]; the config wants [{}]", path_.string(), name,
                     fmt::join(it->second->shape, ", "), fmt::join(shape, ", "));
  return *it->second;
}

}  // namespace warptune
