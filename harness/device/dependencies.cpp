#include "harness/device/dependencies.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "harness/core/lookup.h"
#include "harness/device/content_hash.h"
#include "harness/device/source_closure.h"

namespace warptune {
namespace fs = std::filesystem;
namespace {

/// Empty where there is no such file.
std::string size_and_time(const std::string& path) {
  struct stat facts {};
  if (::stat(path.c_str(), &facts) != 0) return {};
  return fmt::format("{} {}.{:09}", facts.st_size, facts.st_mtim.tv_sec, facts.st_mtim.tv_nsec);
}

std::string state_of(const std::string& path, const SearchPath& folders) {
  return folders.is_of_user(path) ? content_hash(read_source_file(path)) : size_and_time(path);
}

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

/// Where a file that exists would be included in place of one of the given: below an earlier folder, or,
/// since quoted includes look there first, beside a file of the user.
std::vector<std::string> places_that_hide(std::span<const Dependency> files, const SearchPath& folders) {
  std::vector<fs::path> first = folders.user, all = folders.user;
  all.insert(all.end(), folders.toolkit.begin(), folders.toolkit.end());
  for (const Dependency& file : files)
    if (const fs::path folder = fs::path(file.path).parent_path();
        folders.is_of_user(file.path) && !contains(first, folder))
      first.push_back(folder);
  std::set<std::string> places;
  for (const Dependency& file : files) {
    std::vector<std::string> names;
    if (!fs::path(file.path).is_absolute()) names.push_back(file.path);
    for (const fs::path& folder : all)
      if (file.path.starts_with(folder.string() + '/'))
        names.push_back(file.path.substr(folder.string().size() + 1));
    for (const std::string& name : names)
      for (const fs::path& folder : first)
        if (const fs::path place = folder / name; !is_there(place)) places.insert(place.string());
  }
  return {places.begin(), places.end()};
}

}  // namespace

Dependencies::Dependencies(std::span<const std::string> included, const CustomKernel::Files& program,
                           const SearchPath& folders) {
  for (const std::string& path : included) {
    const auto header = std::find_if(program.begin() + 1, program.end(),
                                     [&](const auto& file) { return file.first == path; });
    if (header != program.end()) {
      files_.push_back({path, content_hash(header->second)});
      continue;
    }
    files_.push_back({path, state_of(path, folders)});
    if (folders.is_of_user(path)) asks_for_files_ |= warptune::asks_for_files(read_source_file(path));
  }
  absent_ = places_that_hide(files_, folders);
}

bool Dependencies::hold(const KernelSources& own, const SearchPath& folders) const try {
  const auto same = [&](const Dependency& file) {
    return file.state == (fs::path(file.path).is_absolute() ? state_of(file.path, folders)
                                                            : content_hash(own.header(file.path)));
  };
  return std::ranges::all_of(files_, same) &&
         std::ranges::none_of(absent_, [](const std::string& path) { return is_there(path); });
} catch (const std::exception&) {  // a file is gone
  return false;
}

std::string Dependencies::text() const {
  nlohmann::json files = nlohmann::json::array();
  for (const Dependency& file : files_) files.push_back({file.path, file.state});
  return nlohmann::json{{"files", files}, {"absent", absent_}}.dump(-1, ' ', false,
                                                                    nlohmann::json::error_handler_t::replace);
}

std::string Dependencies::identity() const {
  std::string text;
  for (const Dependency& file : files_) text += file.path + '\0' + file.state + '\0';
  return text;
}

std::optional<Dependencies> Dependencies::parse(const std::string& text) try {
  const auto json = nlohmann::json::parse(text);
  Dependencies result;
  for (const auto& file : json.at("files")) result.files_.push_back({file.at(0), file.at(1)});
  json.at("absent").get_to(result.absent_);
  return result;
} catch (const nlohmann::json::exception&) {
  return std::nullopt;
}

}  // namespace warptune
