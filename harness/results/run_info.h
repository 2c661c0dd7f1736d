#pragma once
// The identity of a run of the program in its results.
#include <string>

namespace warptune {

struct RunInfo {
  std::string run_id;      // "20260102T030405Z-9f3c21ab"
  std::string git_commit;  // the sources of this program; empty if they were not a checkout
  std::string host;        // name of the machine
};

/// A new id, and the facts of this program and machine.
RunInfo new_run();
/// The current time as "2026-01-02T03:04:05Z".
std::string timestamp_utc();
std::string git_commit();
/// The version of this program: "0.1.0".
std::string program_version();

}  // namespace warptune
