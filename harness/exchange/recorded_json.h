#pragma once
// Recorded spaces of other autotuners, for `simulate`: cachefiles of Kernel Tuner, and results in the T4
// format of the auto-tuning methodology project (schema 1.0.0), which Kernel Tuner and others write; and the
// rows of a sweep in T4.
#include <filesystem>
#include <string>
#include <vector>

#include "harness/core/op_table.h"
#include "harness/search/simulate.h"

namespace warptune {

/// The space of a JSON file of either format, if its name matches `pattern` (a regular expression). A
/// cachefile is named "KERNEL[problem_size=4096x4096,device=NVIDIA A100]", a T4 file by its metadata or the
/// file's name. A configuration that failed has no time. A cachefile that its writer was killed in ends at
/// its last whole line. Throws InputError for another file, and where no configuration has a time.
std::vector<RecordedSpace> recorded_json_spaces(const OpTable& ops, const std::filesystem::path& file,
                                                const std::string& pattern);

/// The configurations of the one problem of a sweep's CSV that `pattern` (a regular expression) leaves: those
/// that `simulate` takes, each with its last row, with "variant" as a parameter, and the samples that the
/// sweep kept. Throws InputError where the pattern leaves no problem or several.
std::string to_t4(const OpTable& ops, const std::filesystem::path& csv, const std::string& pattern);

}  // namespace warptune
