#pragma once
// The finalists of a problem: the fastest configurations of the screening, timed again, interleaved, and the
// winner among them.
#include <cstdio>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/measure/measurement.h"
#include "harness/tune/device_rows.h"
#include "harness/tune/device_worker.h"
#include "harness/tune/trials.h"

namespace warptune {

/// Two medians closer than this count as equal: two runs of the same code differ that much, whatever their
/// intervals are.
inline constexpr double kSameTime = 0.005;

/// The indices of the fastest verified configurations that were not abandoned, at most `count`, fastest
/// first, without those that are surely slower than the fastest: by 5 % between their intervals. Of `peers`,
/// which cannot win, only the fastest is among them, and it is not counted.
std::vector<std::size_t> choose_finalists(std::span<const Measurement> measurements, int count,
                                          std::span<const std::size_t> peers = {});

/// Times the finalists (indices into the trials) interleaved, A B C A B C, so that drift is equal for all.
/// Their times replace those of the screening; all other configurations leave the choice. Without new trials
/// the times come from the rows of earlier runs, else rows are written. If the timing fails, the screening
/// decides and the log has one line with the reason.
void time_finalists(const SweepItem& item, const std::vector<std::size_t>& finalists, Trials& trials,
                    DeviceWorker& worker, DeviceRows& rows, std::FILE* log);

struct Choice {
  std::size_t winner = 0;
  std::vector<std::size_t> tied;  // the other configurations that tie with the fastest, in canonical order
  bool throttled = false;         // the device was throttled while the winner was timed
};

/// Measurements are in canonical order. A configuration ties with the fastest if their intervals of the
/// median overlap or their medians differ by less than kSameTime. The simplest of these wins: least shared
/// memory, then fewest registers, then canonical order. Nothing where no configuration is ok.
std::optional<Choice> choose_winner(std::span<const Measurement> measurements);

/// Times the winner and the fastest others, three in all, in the worker, which is a fresh process, and writes
/// their rows. A row whose interval and that of the sweep's process do not overlap says so. True where
/// another one wins: then `choice` and `trials` are those of the fresh process.
bool time_in_fresh_process(const SweepItem& item, Choice& choice, Trials& trials, DeviceWorker& worker,
                           DeviceRows& rows, std::FILE* log);
/// "10.1 us in the process of the sweep, 12.3 us in a fresh one"; empty where the times agree.
std::string difference_in_fresh_process(const Measurement& before, const Measurement& fresh);
/// The choice of a fresh process; nothing where `winner` stays, which ties with the fastest.
std::optional<Choice> choice_after(std::span<const Measurement> fresh, std::size_t winner);

}  // namespace warptune
