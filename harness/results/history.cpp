#include "harness/results/history.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <map>
#include <optional>
#include <set>
#include <thread>

#include "harness/core/brief.h"
#include "harness/core/error.h"
#include "harness/core/facts.h"
#include "harness/core/parallel.h"
#include "harness/core/pattern.h"
#include "harness/core/text.h"
#include "harness/results/sweep_file.h"
#include "harness/results/sweep_row.h"
#include "harness/results/wisdom.h"

namespace warptune {
namespace fs = std::filesystem;
namespace {

constexpr double kSecondsOfARun = 12 * 3600;

/// Seconds since 1970 of "20260102T030405Z-9f3c21ab"; empty where a text does not begin so.
std::optional<double> start_of(const std::string& run_id) {
  std::tm time{};
  const char* end = ::strptime(run_id.c_str(), "%Y%m%dT%H%M%SZ", &time);
  return end ? std::optional(static_cast<double>(::timegm(&time))) : std::nullopt;
}

/// A part of a file's name, without '_', which separates the parts.
std::string part_of_name(std::string text, const char* otherwise) {
  const auto is_other = [](unsigned char c) { return !std::isalnum(c) && c != '.' && c != '-' && c != '+'; };
  std::ranges::replace_if(text, is_other, '-');
  return text.empty() ? otherwise : text;
}

fs::path file_of(const fs::path& folder, const CsvRow& row) {
  return folder / fmt::format("{}_{}_{}_{}.csv", part_of_name(row.at("run_id"), ""),
                              part_of_name(row.at("git_commit"), "no-commit"),
                              part_of_name(DeviceFacts{.name = row.at("device")}.slug(), "no-device"),
                              part_of_name(row.at("driver"), "no-driver"));
}

bool is_of_history(const CsvRow& row) {
  return !is_launch_row(row) && (!is_step_row(row) || row.at("op") == kStepOp);
}

/// The rows that a history keeps: those with a time that decides, and what fails in a run of `rerun`.
std::vector<CsvRow> kept_rows(std::vector<CsvRow> rows) {
  std::set<std::string> reruns;
  for (const CsvRow& row : rows)
    if (sampling_of(row) == SamplingClass::rerun) reruns.insert(row.at("run_id"));
  std::erase_if(rows, [&](const CsvRow& row) {
    const bool decides = TimedConfig{.sampling = sampling_of(row)}.decides() && row.at("status") == "ok";
    const bool fails = row.at("status") != "ok" && reruns.contains(row.at("run_id"));
    return !is_of_history(row) || !(decides || fails);
  });
  return rows;
}

/// Reads the columns that a comparison needs; read_sweep() has checked them before they were added.
class RunReader {
 public:
  explicit RunReader(const HistoryFile& file) { run_.file = file; }

  HistoryRun read() {
    for_each_record(
        run_.file.path, [&](const auto& names) { find_columns(names); },
        [&](int line, const auto& fields) { add(line, fields); });
    return std::move(run_);
  }

 private:
  static constexpr std::array kColumns = {
      "run_id", "host",  "device", "driver",  "toolkit",  "card",         "op",        "problem",  "variant",
      "config", "cache", "status", "time_us", "sampling", "sm_clock_mhz", "throttled", "code_hash"};

  void find_columns(const std::vector<std::string>& names) {
    for (const char* column : kColumns) {
      const auto at = std::ranges::find(names, column);
      if (at != names.end())
        places_[column] = static_cast<std::size_t>(at - names.begin());
      else if (column != std::string_view("card"))
        fail(1, fmt::format("a run of a history has the column {}", column));
    }
  }

  [[noreturn]] void fail(int line, const std::string& fault) const {
    throw InputError("{}:{}: {}", run_.file.path.string(), line, fault);
  }

  void add(int line, const std::vector<std::string>& fields) {
    const auto get = [&](const char* column) {
      const auto at = places_.find(column);
      return at == places_.end() ? std::string() : fields[at->second];
    };
    if (run_.configs.empty()) run_.host = get("host"), run_.toolkit = get("toolkit"), run_.card = get("card");
    TimedConfig& row = run_.configs.emplace_back(TimedConfig{.device = get("device"),
                                                             .op = get("op"),
                                                             .problem = get("problem"),
                                                             .variant = get("variant"),
                                                             .config = get("config"),
                                                             .cache = get("cache"),
                                                             .on_host = get("driver").empty()});
    if (const std::string status = get("status"); status != "ok") {
      row.failure = status;
      return;
    }
    const auto us = number_of(get("time_us"));
    if (!us || *us <= 0) fail(line, "time_us is no time");
    try {
      row.sampling = parse_sampling_class(get("sampling"));
    } catch (const InputError& e) {
      fail(line, e.what());
    }
    row.runs.push_back({.run_id = get("run_id"),
                        .time_us = *us,
                        .sm_clock_mhz = number_of(get("sm_clock_mhz")).value_or(Measurement::NAN_VALUE),
                        .throttled = get("throttled"),
                        .code_hash = get("code_hash")});
  }

  HistoryRun run_;
  std::map<std::string_view, std::size_t> places_;
};

}  // namespace

std::vector<fs::path> add_to_history(const fs::path& folder, std::vector<CsvRow> rows) {
  make_folder(folder);
  std::set<std::string> known;
  for (const HistoryFile& file : history_files(folder)) known.insert(file.run_id);
  std::map<fs::path, std::vector<CsvRow>> files;
  for (CsvRow& row : kept_rows(std::move(rows))) {
    const std::string& id = row.at("run_id");
    if (!start_of(id)) throw InputError("'{}' is no run id; it begins with a date", brief(id));
    if (known.contains(id)) continue;
    // Older files lack the class, which a reader of the history needs.
    if (row.at("status") == "ok") row["sampling"] = name_of(sampling_of(row));
    files[file_of(folder, row)].push_back(std::move(row));
  }
  std::vector<fs::path> written;
  for (const auto& [file, lines] : files) {
    write_csv(file, sweep_columns(), lines);
    written.push_back(file);
  }
  return written;
}

std::vector<HistoryFile> history_files(const fs::path& folder) {
  static const Pattern name("[0-9]{8}T[0-9]{6}Z-[^_]*_[^_]+_[^_]+_[^_]+\\.csv", "a name");
  std::error_code error;
  if (!fs::is_directory(folder, error))
    throw InputError("'{}' is no folder; --history DIR of tune, rerun and decode makes one", folder.string());
  std::vector<HistoryFile> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string text = entry.path().filename().string();
    if (!name.matches(text)) continue;
    const std::vector<std::string> parts = split(entry.path().stem().string(), '_');
    files.push_back({entry.path(), parts[0], parts[1], parts[2], parts[3]});
  }
  std::ranges::sort(files, {}, &HistoryFile::path);
  return files;
}

std::vector<HistoryRun> read_history(const std::vector<HistoryFile>& files) {
  std::vector<HistoryRun> read(files.size()), runs;
  const int threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  parallel_for(files.size(), threads, [&](std::size_t i) { read[i] = RunReader(files[i]).read(); });
  std::map<std::vector<std::string>, std::size_t> open;  // by what the files of a run have in common
  for (HistoryRun& file : read) {
    const auto [it, is_new] = open.try_emplace(
        {file.file.commit, file.file.device, file.file.driver, file.host, file.toolkit, file.card},
        runs.size());
    if (!is_new && *start_of(file.file.run_id) < *start_of(runs[it->second].file.run_id) + kSecondsOfARun) {
      std::ranges::move(file.configs, std::back_inserter(runs[it->second].configs));
      continue;
    }
    it->second = runs.size();
    runs.push_back(std::move(file));
  }
  for (HistoryRun& run : runs) run.configs = grouped(run.configs);
  return runs;
}

}  // namespace warptune
