#pragma once
// The times of a decode run: its step, the ops of the step, and the roofline floor of its bytes; and the CSV
// with one row per run, appended by every run.
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "harness/llama/model.h"
#include "harness/measure/speed_table.h"
#include "harness/results/csv.h"
#include "harness/results/run_info.h"

namespace warptune {

struct StepTime {
  int context = 0;          // keys of the longest sequence
  double mean_context = 0;  // keys per sequence
  double us = 0, us_p10 = 0, us_p90 = 0;
  int samples = 0;
  double joules = __builtin_nan("");  // of a step under steady load; NaN where the device does not tell
  bool uneven() const { return mean_context != context; }
};
/// Times the captured step with exactly contexts[b] keys in sequence b.
StepTime time_step(Model& model, std::span<const int> contexts);

/// One distinct plan of the step.
struct OpTime {
  std::string op;
  Problem problem;
  std::string label;  // the problem, for people; empty: its key
  std::string variant, config;
  int count = 0;     // launches per step
  double us = 0;     // per launch, timed with all launches of this plan: the weights of all layers rotate
  Speed speed = {};  // the speed of a launch; its time is `us`
  double total() const { return us * count; }
};
/// In the order of the step.
std::vector<OpTime> time_ops(Model& model, std::span<const int> contexts);

/// The compulsory bytes of a step: every weight, and every key and value within the window, once. With
/// `contexts`, the keys of each sequence, else `context` in each of `batch`.
double step_bytes(const ModelConfig& config, DType dtype, std::span<const int> contexts,
                  const KvFormat& kv = {});
double step_bytes(const ModelConfig& config, DType dtype, int batch, int context, const KvFormat& kv = {});

/// The steps of the run as the user sees them.
struct WallClock {
  int steps = 0;  // that ran: a run ends early where all sequences do
  double us_per_step =
      0;  // from the first step's launch to the last token on the host, all host work included
};

struct DecodeReport {
  std::string model, dtype, plan_set, check;
  std::string plan_sources;  // one line with the number of plans by source; may be empty
  std::string peak_from;     // the source of the read bandwidth of the floor, in words
  int batch = 0, prompt_len = 0, steps = 0, ranks = 1;
  bool graph = true;
  StepTime step;
  WallClock wall;
  std::vector<OpTime> ops;
  double prefill_us = 0;
  std::vector<std::string> prefill_attention;  // the plans
  double floor_us = 0;                         // 0: the bandwidth is not known
  double device_memory_mib = 0;

  /// How much longer a step takes on the wall clock than the timed one, in percent.
  double wall_clock_overhead_pct() const { return 100 * (wall.us_per_step / step.us - 1); }
  double joules_per_token() const { return step.joules / batch; }
  double tokens_per_s() const { return 1e6 * batch / step.us; }
  double sum_of_ops_us() const;
  double pct_floor() const { return 100 * floor_us / step.us; }
};

/// The lines that decode prints. `verbose`: also the sum of the kernels and the plans of the prefill.
std::string to_text(const DecodeReport& report, bool colored = false, bool verbose = false);

/// The columns, and the fields of a row.
const std::vector<std::string>& decode_columns();
std::vector<std::string> to_row(const DecodeReport& report, const DeviceFacts& facts, const RunInfo& run,
                                const std::string& timestamp);

/// The row of a history (results/history.h): the step as a row of op `step`, whose variant is the set of
/// plans.
CsvRow history_row(const DecodeReport& report, const DeviceFacts& facts, const RunInfo& run,
                   const std::string& timestamp);

/// Opens or creates the file. Adds the column `ranks` to one that lacks it. Checks existing rows as strictly
/// as those of a sweep. Throws InputError with file and line for other columns, another schema or a text
/// instead of a number, and if the file cannot be written. Removes an incomplete last line and passes a
/// sentence about it to `tell`.
std::unique_ptr<CsvFile> open_decode_csv(const std::filesystem::path& path,
                                         const std::function<void(const std::string&)>& tell);

}  // namespace warptune
