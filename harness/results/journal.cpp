#include "harness/results/journal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <cerrno>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "harness/core/error.h"
#include "harness/core/hash.h"
#include "harness/core/input_file.h"
#include "harness/core/json.h"
#include "harness/results/sweep_file.h"
#include "harness/results/sweep_row.h"

namespace warptune {
namespace fs = std::filesystem;
using Json = nlohmann::json;
namespace {

constexpr std::uintmax_t kMaxJournalBytes = std::uintmax_t{1} << 30;  // more than any sweep writes
constexpr std::string_view kLineStart = R"({"run_id")";               // how add() begins each line
constexpr int kLockTries = 40;  // the lock of a killed program is released with a delay
constexpr std::chrono::milliseconds kLockWait{50};

std::string hex(std::uint64_t hash) { return fmt::format("{:016x}", hash); }

}  // namespace

std::string stamp_name(const std::string& problem, const std::string& cache, const std::string& variant) {
  return problem + ' ' + cache + ' ' + variant;
}

std::string stamp_of(const std::string& source_hash, const BenchOptions& o) {
  std::string options =
      fmt::format("{} {} {} {} {}", o.max_rel_ci, o.min_samples, o.max_time, o.seed, kMeasuringVersion);
  if (o.duty_cycle < 1) options += fmt::format(" duty_cycle={}", o.duty_cycle);
  for (const InputChange& change : o.inputs) options += ' ' + change.str();
  return source_hash + ' ' + hex(stable_hash(options));
}

std::string code_stamp(const std::string& stamp, const std::string& code_hash) {
  return "code " + code_hash + stamp.substr(std::min(stamp.find(' '), stamp.size()));
}

bool is_first_row(const CsvRow& row) {
  const std::string cache = field(row, "cache");
  const SamplingClass sampling = sampling_of(row);
  return !is_launch_row(row) && (cache == "cold" || cache == "hot") && sampling != SamplingClass::finalist &&
         sampling != SamplingClass::other_cache && sampling != SamplingClass::fresh_process;
}

std::string key_of(const CsvRow& row, const std::string& stamp) {
  std::string text = stamp;
  for (const char* column : {"device", "arch", "driver", "toolkit", "problem", "variant", "config", "cache"})
    text += '\n' + field(row, column);
  return hex(stable_hash(text));
}

Journal Journal::read(const fs::path& path) {
  Journal journal;
  journal.path_ = path;
  journal.load();
  return journal;
}

Journal::Journal(fs::path path) : path_(std::move(path)) {
  make_folder(path_.parent_path());
  file_ = OpenFile(path_, O_RDWR | O_CREAT | O_APPEND);
  for (int i = 0; ::flock(file_.get(), LOCK_EX | LOCK_NB) != 0; ++i) {
    if (errno != EWOULDBLOCK && errno != EINTR) break;  // a file system without locks
    if (i == kLockTries)
      throw InputError("another program is writing '{}'; wait for it or choose another output folder",
                       path_.string());
    std::this_thread::sleep_for(kLockWait);
  }
  if (const std::string rest = load(); !rest.empty()) {
    if (!rest.starts_with(kLineStart) && !kLineStart.starts_with(rest))
      throw InputError(
          "'{}' is no journal of a sweep: its last line is of another form; move the file away or choose "
          "another output folder",
          path_.string());
    keep_beside(path_, rest);
    cut_end(file_.get(), rest.size(), path_);
  }
  sync_folder_of(path_);
}

std::string Journal::load() {
  if (!fs::exists(path_)) return {};
  const std::string text = read_input(path_, fmt::format("'{}'", path_.string()), kMaxJournalBytes);
  std::size_t at = 0;
  for (std::size_t end; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
    const Json json =
        parse_json(std::string_view(text).substr(at, end - at), fmt::format("'{}'", path_.string()));
    // Skips lines of another form: their rows are then unknown and measured again.
    if (!json.is_object() || !json.contains("run_id") || !json.contains("stamps")) continue;
    try {
      runs_[json["run_id"].get<std::string>()] = json["stamps"].get<Stamps>();
    } catch (const Json::exception&) {
      continue;
    }
  }
  return text.substr(at);
}

std::string Journal::rescue() const { return warptune::rescue(file_.get(), path_); }

void Journal::add(const std::string& run_id, const Stamps& stamps) {
  const std::string line = Json{{"run_id", run_id}, {"stamps", stamps}}.dump() + '\n';
  write_and_sync(file_.get(), line, path_);
  runs_[run_id] = stamps;
}

std::optional<std::string> Journal::key(const CsvRow& row) const {
  const auto stamp = stamp_of_row(row);
  return stamp ? std::optional(key_of(row, *stamp)) : std::nullopt;
}

std::optional<std::string> Journal::code_key(const CsvRow& row) const {
  const auto stamp = stamp_of_row(row);
  const std::string code = field(row, "code_hash");
  return stamp && !code.empty() ? std::optional(key_of(row, code_stamp(*stamp, code))) : std::nullopt;
}

std::optional<std::string> Journal::stamp_of_row(const CsvRow& row) const {
  const auto run = runs_.find(field(row, "run_id"));
  if (run == runs_.end()) return std::nullopt;
  const auto stamp =
      run->second.find(stamp_name(field(row, "problem"), field(row, "cache"), field(row, "variant")));
  return stamp == run->second.end() ? std::nullopt : std::optional(stamp->second);
}

}  // namespace warptune
