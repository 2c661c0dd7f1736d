#pragma once
// Times the slower rows of a comparison again, in new processes, base and new program interleaved.
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "harness/results/compare.h"
#include "harness/results/wisdom.h"

namespace warptune {

struct ConfirmOptions {
  int runs = 5;                                      // of each program
  std::filesystem::path program = "/proc/self/exe";  // started as `program rerun WISDOM ...`
  std::filesystem::path base_program;                // empty: the base's own rows count
  std::string device = "auto";
  std::vector<std::string> models;  // folders of checkpoints whose steps are among the rows
  std::filesystem::path output;     // a new folder below it keeps the rows
  std::FILE* log = stderr;          // one line per run
};

/// Replaces the verdicts of suspects() whose configuration is a winner or a step of `wisdom` by those of
/// `runs` new runs. The new runs are independent of the first verdict, so the correction for many tests
/// covers the suspects only. Throws InputError if a program cannot run, if the device of the rows is not
/// here, and, without a base program, if the base's rows are not those of `rerun`.
Comparison confirm(const Comparison& comparison, const Wisdom& wisdom, const ConfirmOptions& options);

}  // namespace warptune
