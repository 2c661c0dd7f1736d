#pragma once
// The inputs of a report: rows of sweeps, decode runs, peers, devices with their peaks, wisdom.
#include <filesystem>
#include <string>
#include <vector>

#include "harness/core/facts.h"
#include "harness/results/history_check.h"
#include "harness/results/journal.h"
#include "harness/results/wisdom.h"

namespace warptune {

/// The role of a sweep's row in its problem. A problem is shown cold, or hot if it was only timed hot.
enum class RowRole {
  first,     // the first measurement of a configuration
  finalist,  // its interleaved time with the other finalists
  aside,     // its time in another cache state
};

struct ResultsSet {
  std::vector<CsvRow> rows;    // rows of sweeps, in the order of the files
  std::vector<CsvRow> peers;   // the same columns, measured by another program (torch_peers.csv)
  std::vector<CsvRow> decode;  // rows of decode.csv
  std::vector<DeviceFacts> devices;
  std::vector<Wisdom> wisdom;
  std::vector<HistoryRun> history;  // the runs of a history, and the changes in it
  Comparison changes;
  std::vector<std::string> notes;  // skipped files and the reasons
};

/// Reads files and folders (every *.csv below), and device.json, wisdom.json, decode.csv and torch_peers.csv
/// next to a CSV. Skips other tables with a note. Throws InputError if a path does not exist, a sweep's file
/// is wrong (results/sweep_file.h), or there is no row.
ResultsSet read_results(const std::vector<std::filesystem::path>& paths);

/// Reads a history, and finds its changes; a note says why where that fails. Throws InputError.
void add_history(ResultsSet& set, const std::filesystem::path& folder);

/// The role of each row of a sweep.
std::vector<RowRole> roles_of(const std::vector<CsvRow>& rows);

}  // namespace warptune
