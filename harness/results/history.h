#pragma once
// A history: a folder with one CSV per process that measured, named by date, commit, device and driver. A
// file is written once, under a name that no other writer uses, and never changed: several machines may share
// the folder.
#include <filesystem>
#include <string>
#include <vector>

#include "harness/results/csv.h"
#include "harness/results/timed_config.h"

namespace warptune {

/// What the name of a file tells.
struct HistoryFile {
  std::filesystem::path path;
  std::string run_id, commit, device, driver;  // device: DeviceFacts::slug()
};

/// A run: the files of one commit, machine and card that begin within 12 hours, such as those of
/// `rerun --runs 3`.
struct HistoryRun {
  HistoryFile file;                  // the first
  std::string host, toolkit, card;   // empty where unknown
  std::vector<TimedConfig> configs;  // those that decide a comparison, and failures
};

/// Adds the rows that decide a comparison (TimedConfig::decides()) and failures of `rerun`, of the run ids
/// that no file has yet: after a kill the next call adds what is missing. Returns the new files. Throws
/// InputError where a row has no run id, std::runtime_error where the folder cannot be written.
std::vector<std::filesystem::path> add_to_history(const std::filesystem::path& folder,
                                                  std::vector<CsvRow> rows);

/// The files in the order of their dates. Files with other names are left out. Throws InputError where there
/// is no such folder.
std::vector<HistoryFile> history_files(const std::filesystem::path& folder);

/// The runs in the same order, read by several threads. Throws InputError with file and line for what is no
/// row.
std::vector<HistoryRun> read_history(const std::vector<HistoryFile>& files);

}  // namespace warptune
