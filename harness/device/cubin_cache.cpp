#include "harness/device/cubin_cache.h"

#include <fmt/format.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "harness/device/content_hash.h"

namespace warptune {
namespace fs = std::filesystem;
namespace {

constexpr const char *kCubin = ".cubin", *kNote = ".files";

std::optional<std::string> read_if_there(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in) return std::nullopt;
  return std::move(text).str();
}

/// A cache file: one line of JSON, then the machine code. A file whose hash does not match is ignored.
std::optional<Cubin> parse_cubin(const std::string& text) try {
  const auto end = text.find('\n');
  if (end == std::string::npos) return std::nullopt;
  const auto head = nlohmann::json::parse(text.substr(0, end));
  Cubin cubin{.code = text.substr(end + 1), .entry = head.at("entry"), .from_cache = true};
  if (head.at("hash") != nlohmann::json(content_hash(cubin.code))) return std::nullopt;
  cubin.registers = head.at("registers");
  cubin.static_shared_bytes = head.at("shared");
  cubin.spill_bytes = head.at("spill");
  return cubin;
} catch (const nlohmann::json::exception&) {
  return std::nullopt;
}

}  // namespace

std::optional<Cubin> CubinCache::find(const std::string& key) const {
  if (folder_.empty()) return std::nullopt;
  const auto text = read_if_there(folder_ / (content_hash(key) + kCubin));
  return text ? parse_cubin(*text) : std::nullopt;
}

void CubinCache::save(const std::string& key, const Cubin& cubin) const {
  const nlohmann::json head = {{"hash", content_hash(cubin.code)},
                               {"entry", cubin.entry},
                               {"registers", cubin.registers},
                               {"shared", cubin.static_shared_bytes},
                               {"spill", cubin.spill_bytes}};
  write(key, kCubin, head.dump() + '\n' + cubin.code);
}

std::optional<std::string> CubinCache::find_note(const std::string& key) const {
  return folder_.empty() ? std::nullopt : read_if_there(folder_ / (content_hash(key) + kNote));
}

void CubinCache::save_note(const std::string& key, const std::string& text) const { write(key, kNote, text); }

/// Writes a temporary file and renames it, so that a reader never sees a partial file. Does nothing on a full
/// disk, or where the folder cannot be made.
void CubinCache::write(const std::string& key, const char* suffix, const std::string& text) const {
  if (folder_.empty()) return;
  std::error_code ignored;
  fs::create_directories(folder_, ignored);
  const fs::path path = folder_ / (content_hash(key) + suffix);
  const fs::path partial =
      path.string() + fmt::format(".{}-{:x}", getpid(), reinterpret_cast<std::uintptr_t>(&text));
  {
    std::ofstream out(partial, std::ios::binary);
    out << text;
    if (!out.flush()) {
      out.close();
      fs::remove(partial, ignored);
      return;
    }
  }
  fs::rename(partial, path, ignored);
}

}  // namespace warptune
