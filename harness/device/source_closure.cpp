#include "harness/device/source_closure.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <optional>
#include <set>

#include "harness/core/error.h"
#include "harness/core/input_file.h"
#include "harness/device/compile.h"

namespace warptune {
namespace fs = std::filesystem;
namespace {

constexpr std::uintmax_t kMaxSourceBytes = 64 << 20;

std::string_view without_blanks(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  return first == std::string_view::npos ? std::string_view() : text.substr(first);
}

/// The file that an include names, or nothing.
std::optional<fs::path> found_file(const IncludeLine& include, const fs::path& beside,
                                   std::span<const fs::path> folders) {
  std::error_code error;
  if (include.quoted && fs::is_regular_file(beside / include.name, error)) return beside / include.name;
  for (const fs::path& folder : folders)
    if (fs::is_regular_file(folder / include.name, error)) return folder / include.name;
  return std::nullopt;
}

/// The word before the parameters of a declaration. Attributes like __launch_bounds__(256) stand before it.
std::string name_of_declaration(std::string_view text) {
  const auto is_part = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  for (std::size_t at = text.find('('); at != std::string_view::npos; at = text.find('(', at)) {
    std::size_t end = at;
    while (end > 0 && std::isspace(static_cast<unsigned char>(text[end - 1]))) --end;
    std::size_t begin = end;
    while (begin > 0 && is_part(text[begin - 1])) --begin;
    const std::string_view word = text.substr(begin, end - begin);
    if (!word.starts_with("__")) return std::string(word);
    for (int depth = 0; at < text.size(); ++at) {  // over the attribute's arguments
      depth += text[at] == '(' ? 1 : text[at] == ')' ? -1 : 0;
      if (depth == 0) break;
    }
  }
  return {};
}

/// Adds the includes of a text that are files of the program, and theirs.
void add_headers(std::string_view text, const KernelSources& own, std::set<std::string>& seen,
                 CustomKernel::Files& headers) {
  for (const IncludeLine& include : includes_in(text)) {
    if (!include.quoted || !include.name.starts_with("kernels/") || seen.contains(include.name)) continue;
    for (auto& file : own.closure(include.name))
      if (seen.insert(file.first).second) headers.push_back(std::move(file));
  }
}

}  // namespace

std::vector<IncludeLine> includes_in(std::string_view text) {
  constexpr std::string_view kWord = "include";
  std::vector<IncludeLine> includes;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = without_blanks(text.substr(at, end - at));
    at = end + 1;
    if (!line.starts_with('#')) continue;
    line = without_blanks(line.substr(1));
    if (!line.starts_with(kWord)) continue;
    line = without_blanks(line.substr(kWord.size()));
    if (line.empty() || (line[0] != '"' && line[0] != '<')) continue;
    const bool quoted = line[0] == '"';
    const std::size_t close = line.find(quoted ? '"' : '>', 1);
    if (close != std::string_view::npos && close > 1)
      includes.push_back({std::string(line.substr(1, close - 1)), quoted});
  }
  return includes;
}

SourceClosure source_closure(const fs::path& source, std::span<const fs::path> folders,
                             const KernelSources& own) {
  const auto read = [](const fs::path& path) {
    return read_input(path, fmt::format("'{}'", path.string()), kMaxSourceBytes);
  };
  SourceClosure closure;
  closure.files.emplace_back(source.filename().string(), read(source));
  std::vector<fs::path> paths = {source};
  std::set<fs::path> seen = {fs::weakly_canonical(source)};
  std::set<std::string> seen_headers;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const std::string text = closure.files[i].second;
    const fs::path beside = paths[i].parent_path();
    for (const IncludeLine& include : includes_in(text))
      if (const auto path = found_file(include, beside, folders);
          path && seen.insert(fs::weakly_canonical(*path)).second) {
        closure.files.emplace_back(include.name, read(*path));
        paths.push_back(*path);
      }
    add_headers(text, own, seen_headers, closure.headers);
  }
  return closure;
}

std::vector<std::string> kernels_in(std::string_view text) {
  constexpr std::string_view kWord = "__global__";
  std::vector<std::string> kernels;
  for (auto at = text.find(kWord); at != std::string_view::npos; at = text.find(kWord, at + 1)) {
    const std::string name = name_of_declaration(text.substr(at + kWord.size()));
    if (!name.empty() && std::ranges::find(kernels, name) == kernels.end()) kernels.push_back(name);
  }
  return kernels;
}

std::vector<fs::path> toolkit_folders() {
  std::vector<fs::path> roots;
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"})
    if (const char* folder = std::getenv(variable)) roots.push_back(fs::path(folder) / "include");
#ifdef WARPTUNE_CUDA_INCLUDE
  roots.emplace_back(WARPTUNE_CUDA_INCLUDE);
#endif
  roots.emplace_back("/usr/local/cuda/include");
  std::error_code error;
  for (const fs::path& root : roots) {
    if (!fs::is_regular_file(root / "cuda_fp16.h", error)) continue;
    std::vector<fs::path> folders = {root};
    if (fs::is_directory(root / "cccl", error)) folders.push_back(root / "cccl");  // CUB, libcu++
    return folders;
  }
  return {};
}

}  // namespace warptune
