#include "harness/device/source_closure.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <optional>
#include <set>
#include <sstream>

#include "harness/core/error.h"
#include "harness/core/input_file.h"
#include "harness/core/lookup.h"
#include "harness/device/compile.h"
#include "harness/device/nvrtc.h"

namespace warptune {
namespace fs = std::filesystem;
namespace {

constexpr std::uintmax_t kMaxSourceBytes = 64 << 20;

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

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

/// The files that a source includes, by the compiler. A program without NVRTC knows none.
std::vector<std::string> compiler_list(const CustomKernel::Files& program,
                                       const std::vector<std::string>& options) {
#if WARPTUNE_HAS_CUDA
  try {
    return included_files(program, options).value_or(std::vector<std::string>());
  } catch (const CompileError& e) {
    throw InputError(e.what());
  }
#else
  static_cast<void>(program), static_cast<void>(options);
  return {};
#endif
}

/// The files of a closure as they are found, each once.
class Collector {
 public:
  Collector(const SearchPath& folders, const KernelSources& own) : folders_(folders), own_(own) {}

  void add(const std::string& path) {
    if (path.starts_with("kernels/")) {
      if (seen_.insert(path).second) closure_.headers.emplace_back(path, own_.read(path));
    } else if (folders_.is_of_user(path) && seen_.insert(path).second) {
      seen_.insert(fs::weakly_canonical(path).string());
      closure_.files.emplace_back(folders_.name_of(path), read_source_file(path));
      paths_.emplace_back(path);
    }
  }
  /// Follows the lines of the files found so far, whatever their conditions. Links may make a file include
  /// itself under ever longer paths.
  void add_lines() {
    for (std::size_t i = 0; i < paths_.size(); ++i)
      for (const IncludeLine& include : includes_in(std::string(closure_.files[i].second))) {
        has_macro_ |= include.name.empty();
        if (const auto path = found_file(include, paths_[i].parent_path(), folders_.user)) {
          if (!seen_.contains(fs::weakly_canonical(*path).string())) add(path->string());
        } else if (include.quoted && include.name.starts_with("kernels/")) {
          for (const auto& [name, text] : own_.closure(include.name)) add(name);
        }
      }
  }
  bool has_macro() const { return has_macro_; }
  bool has_include_test() const {
    return std::ranges::any_of(closure_.files, [](const auto& file) { return asks_for_files(file.second); });
  }
  SourceClosure take() { return std::move(closure_); }

 private:
  const SearchPath& folders_;
  const KernelSources& own_;
  SourceClosure closure_;
  std::vector<fs::path> paths_;  // the paths of closure_.files
  std::set<std::string> seen_;
  bool has_macro_ = false;
};

#if WARPTUNE_HAS_CUDA
/// The lines of the user in a preprocessed text, in which lines `#line NUMBER "FILE"` say where it comes
/// from.
std::string lines_of_user(const std::string& preprocessed, const SearchPath& folders) {
  std::istringstream in(preprocessed);
  std::string text;
  bool is_of_user = false;
  for (std::string line; std::getline(in, line);) {
    const auto open = line.find('"'), close = line.rfind('"');
    if (line.starts_with("#line ") && open != std::string::npos)
      is_of_user = folders.is_of_user(line.substr(open + 1, close - open - 1));
    else if (is_of_user)
      text += line + '\n';
  }
  return text;
}
#endif

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
    if (line.empty() || (line[0] != '"' && line[0] != '<')) {
      includes.push_back({});
      continue;
    }
    const bool quoted = line[0] == '"';
    const std::size_t close = line.find(quoted ? '"' : '>', 1);
    if (close != std::string_view::npos && close > 1)
      includes.push_back({std::string(line.substr(1, close - 1)), quoted});
  }
  return includes;
}

std::vector<std::string> SearchPath::options() const {
  std::vector<std::string> options;
  for (const auto* folders : {&user, &toolkit})
    for (const fs::path& folder : *folders) options.push_back("-I" + folder.string());
  return options;
}

SearchPath SearchPath::of(std::span<const std::string> options) {
  SearchPath path{.user = {}, .toolkit = toolkit_folders()};
  for (const std::string& option : options)
    if (option.starts_with("-I") && !contains(path.toolkit, fs::path(option.substr(2))))
      path.user.emplace_back(option.substr(2));
  return path;
}

bool SearchPath::is_of_user(const std::string& path) const {
  const auto holds = [&](const fs::path& folder) { return path.starts_with(folder.string() + '/'); };
  return fs::path(path).is_absolute() && std::ranges::none_of(toolkit, holds);
}

std::string SearchPath::name_of(const std::string& path) const {
  const fs::path normal = fs::path(path).lexically_normal();
  for (const fs::path& folder : user)
    if (const fs::path name = normal.lexically_relative(folder); !name.empty() && *name.begin() != "..")
      return name.string();
  return user.empty() ? path : normal.lexically_relative(user.front()).string();
}

SourceClosure source_closure(const fs::path& source, const SearchPath& folders, const KernelSources& own,
                             std::span<const std::vector<std::string>> option_sets) {
  Collector collector(folders, own);
  collector.add(source.string());
  const CustomKernel::Files program = program_of(source, read_source_file(source), folders, own);
  for (const std::vector<std::string>& options : option_sets) {
    for (const std::string& path : compiler_list(program, options)) collector.add(path);
    collector.add_lines();
    if (!collector.has_macro()) break;
  }
  const bool depends_on_others = collector.has_include_test();
  SourceClosure closure = collector.take();
#if WARPTUNE_HAS_CUDA
  if (depends_on_others && !option_sets.empty())
    closure.files.emplace_back("preprocessed",
                               lines_of_user(preprocessed_text(program, option_sets[0]), folders));
#else
  static_cast<void>(depends_on_others);
#endif
  return closure;
}

CustomKernel::Files program_of(const fs::path& source, std::string text, const SearchPath& folders,
                               const KernelSources& own) {
  CustomKernel::Files program = {{source.string(), std::move(text)}};
  for (auto& header : own.headers()) {
    const auto has = [&](const fs::path& folder) { return is_there(folder / header.first); };
    if (std::ranges::none_of(folders.user, has)) program.push_back(std::move(header));
  }
  return program;
}

bool asks_for_files(std::string text) {
  for (const std::string_view splice : {"\\\n", "\\\r\n", "\?\?/\n"})
    for (auto at = text.find(splice); at != std::string::npos; at = text.find(splice, at))
      text.erase(at, splice.size());
  return text.find("__has_include") != std::string::npos;
}

std::string read_source_file(const fs::path& path) {
  return read_input(path, fmt::format("'{}'", path.string()), kMaxSourceBytes);
}

std::vector<std::string> kernels_in(std::string_view text) {
  constexpr std::string_view kWord = "__global__";
  std::vector<std::string> kernels;
  for (auto at = text.find(kWord); at != std::string_view::npos; at = text.find(kWord, at + 1)) {
    const std::string name = name_of_declaration(text.substr(at + kWord.size()));
    if (!name.empty() && !contains(kernels, name)) kernels.push_back(name);
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
