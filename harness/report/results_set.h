#pragma once
// All that a report is made of: rows of sweeps, decode runs, peers, devices with their peaks, wisdom.
#include <filesystem>
#include <string>
#include <vector>

#include "harness/core/facts.h"
#include "harness/results/journal.h"
#include "harness/results/wisdom.h"

namespace warptune {

/// What a row of a sweep is to its problem, which is shown cold, or hot where it was timed hot alone.
enum class RowRole {
  first,     // of a configuration, when the sweep met it
  finalist,  // its time again, in turn with its rivals
  aside,     // its time in another cache state
};

struct ResultsSet {
  std::vector<CsvRow> rows;    // of sweeps, in the order of the files
  std::vector<CsvRow> peers;   // the same columns, measured by another program (torch_peers.csv)
  std::vector<CsvRow> decode;  // of decode.csv
  std::vector<DeviceFacts> devices;
  std::vector<Wisdom> wisdom;
  std::vector<std::string> notes;  // what was left out, and why
};

/// Files and folders (every *.csv below). device.json, wisdom.json, decode.csv and torch_peers.csv beside a
/// CSV are taken too; tables of other kinds are left out with a note. Throws InputError where a path does not
/// exist, a sweep's file is wrong (results/sweep_file.h), or there is no row.
ResultsSet read_results(const std::vector<std::filesystem::path>& paths);

/// The role of each row of a sweep.
std::vector<RowRole> roles_of(const std::vector<CsvRow>& rows);

/// A number of a CSV; NaN where the field is empty or missing.
double number(const CsvRow& row, const std::string& column);
/// A field of a CSV; empty where it is missing.
const std::string& field(const CsvRow& row, const std::string& column);

}  // namespace warptune
