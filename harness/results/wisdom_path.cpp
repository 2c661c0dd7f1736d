#include "harness/results/wisdom_path.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "harness/core/input_file.h"
#include "harness/core/text.h"
#include "harness/core/text_table.h"
#include "harness/results/sha256.h"

namespace warptune {
namespace fs = std::filesystem;
namespace {

/// Joins the winners of the files in order, and knows the file of each.
class Joining {
 public:
  Joining(const WinnerJudge& judge, const Provenance& here) : merge_(judge, here, Prefer::first) {}

  void add(Wisdom other, std::size_t file) {
    if (!wisdom_) wisdom_.emplace(other.provenance()).reserve(other.winners().size());
    for (Winner& winner : std::move(other).winners())
      add(std::move(winner), wisdom_->winners(), winner_files_, file);
    for (StepWinner& step : std::move(other).steps())
      add(std::move(step), wisdom_->steps(), step_files_, file);
  }
  Wisdom wisdom() && { return wisdom_ ? *std::move(wisdom_) : Wisdom(); }
  const std::set<RefusedWinner>& refused() const { return merge_.refused(); }
  std::size_t used(std::size_t file) const {
    return static_cast<std::size_t>(std::ranges::count(winner_files_, file) +
                                    std::ranges::count(step_files_, file));
  }

 private:
  template <class AnyWinner>
  void add(AnyWinner winner, const std::vector<AnyWinner>& all, std::vector<std::size_t>& files,
           std::size_t file) {
    const AnyWinner* known = wisdom_->rival(winner);
    const auto at = known ? static_cast<std::size_t>(known - all.data()) : all.size();
    if (!merge_.add(*wisdom_, std::move(winner))) return;
    files.resize(all.size());
    files[at] = file;
  }

  WisdomMerge merge_;
  std::optional<Wisdom> wisdom_;                        // with the provenance of the first file
  std::vector<std::size_t> winner_files_, step_files_;  // the file of each winner and step
};

/// Reads a file that exists and describes it. Its text is in memory only here.
Wisdom read_file(WisdomFile& file) {
  const std::string origin = fmt::format("the wisdom file '{}'", file.path.string());
  const std::string text = read_input(file.path, origin, kMaxWisdomBytes);
  Wisdom wisdom = parse_wisdom(text, origin);
  file.hash = sha256(text);
  file.winners = wisdom.winners().size();
  file.steps = wisdom.steps().size();
  return wisdom;
}

/// "a.json, b.json": the files that exist, or the files that do not.
std::string names_of(const std::vector<WisdomFile>& files, bool exist) {
  std::vector<std::string> names;
  for (const WisdomFile& file : files)
    if (exist != file.hash.empty()) names.push_back(file.path.string());
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

std::string WisdomInUse::str() const {
  return fmt::format("{}, {} and {} of {}", hash.substr(0, 16), counted(wisdom.winners().size(), "winner"),
                     counted(wisdom.steps().size(), "step"), present());
}

std::string WisdomInUse::present() const { return names_of(files, true); }
std::string WisdomInUse::missing() const { return names_of(files, false); }

std::vector<fs::path> search_path(const std::string& text) {
  std::vector<fs::path> entries;
  for (const std::string& entry : split(text, ':'))
    if (!entry.empty()) entries.emplace_back(entry);
  return entries;
}

fs::path wisdom_file_of(const fs::path& entry, const std::string& slug) {
  std::error_code error;
  if (!fs::is_directory(entry, error)) return entry;
  const fs::path of_device = entry / slug / "wisdom.json";
  return fs::exists(of_device, error) ? of_device : entry / "wisdom.json";
}

WisdomInUse read_wisdom(const WinnerJudge& judge, const std::vector<fs::path>& files,
                        const Provenance& here) {
  Joining joining(judge, here);
  WisdomInUse in_use;
  std::string hashes;
  for (const fs::path& path : files) {
    WisdomFile& file = in_use.files.emplace_back(WisdomFile{.path = path});
    if (std::error_code error; !fs::exists(path, error)) continue;
    joining.add(read_file(file), in_use.files.size() - 1);
    in_use.hash = hashes.empty() ? file.hash : sha256(hashes + file.hash);
    hashes += file.hash;
  }
  for (std::size_t i = 0; i < in_use.files.size(); ++i) in_use.files[i].used = joining.used(i);
  in_use.refused = joining.refused();
  in_use.wisdom = std::move(joining).wisdom();
  return in_use;
}

}  // namespace warptune
