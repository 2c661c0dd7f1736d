#pragma once
// Runs the program from outside.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "harness/results/csv.h"
#include "harness/results/journal.h"

namespace warptune::testing {

/// Tests that limit or exhaust the memory of the program skip under a sanitizer, which maps terabytes and
/// ends the program where an allocation fails.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif
/// Tests that limit the size of files skip under TSan, which maps files of its own.
#if defined(__SANITIZE_THREAD__)
inline constexpr bool kThreadSanitized = true;
#else
inline constexpr bool kThreadSanitized = false;
#endif

struct Ended {
  int code;
  std::string text;
};

/// A shell command line; `{}` in it is the program. `streams` says what is captured.
inline Ended run_shell(std::string command, const std::string& streams = "2>&1") {
  if (const auto at = command.find("{}"); at != std::string::npos) command.replace(at, 2, WARPTUNE_PROGRAM);
  std::FILE* pipe = ::popen((command + " " + streams).c_str(), "r");
  Ended ended{-1, {}};
  std::array<char, 4096> buffer;
  while (const auto n = std::fread(buffer.data(), 1, buffer.size(), pipe))
    ended.text.append(buffer.data(), n);
  ended.code = WEXITSTATUS(::pclose(pipe));
  return ended;
}

/// The program with these arguments.
inline Ended run(const std::string& arguments, const std::string& streams = "2>&1") {
  return run_shell("{} " + arguments, streams);
}

/// Whether it printed this.
inline bool has(const Ended& ended, const std::string& text) {
  return ended.text.find(text) != std::string::npos;
}

/// A new empty folder for one test.
inline std::filesystem::path fresh_folder(const std::string& name) {
  const auto path = std::filesystem::path(::testing::TempDir()) / name;
  std::filesystem::remove_all(path);
  std::filesystem::create_directories(path);
  return path;
}

/// A sweep of rms_norm on the host with these hidden sizes: host_naive, and host_threaded with these threads.
inline std::string host_sweep(const std::filesystem::path& folder, const std::string& hidden,
                              const std::string& threads = "[1, 2]") {
  const auto path = folder / "sweep.yaml";
  std::ofstream(path) << "device: host\nsampling: {min_samples: 6, max_time: 0.002}\nops:\n"
                         "  - op: rms_norm\n    dtypes: fp32\n    problems: [{tokens: 8, hidden: "
                      << hidden
                      << "}]\n    variants: [host_naive, host_threaded: {parameters: {threads: " << threads
                      << "}}]\n";
  return path.string();
}

using Rows = std::vector<std::map<std::string, std::string>>;

/// The rows of screening, without those of the finalists.
inline Rows first_rows(Rows rows) {
  std::erase_if(rows, [](const auto& row) { return !is_first_row(row); });
  return rows;
}

/// Statuses by problem, variant and config; fails if a configuration has two rows.
inline std::map<std::string, std::string> statuses(const Rows& rows) {
  std::map<std::string, std::string> found;
  for (const auto& row : first_rows(rows)) {
    const std::string name = row.at("problem") + " " + row.at("variant") + " " + row.at("config");
    EXPECT_TRUE(found.emplace(name, row.at("status")).second) << name << " was measured twice";
  }
  return found;
}

/// Tunes rms_norm on the host: OUT/host/base.csv and OUT/host/wisdom.json, with two winners.
inline Ended tune_rms_norm(const std::filesystem::path& out) {
  std::filesystem::remove_all(out);
  std::filesystem::create_directories(out);
  std::ofstream(out / "base.yaml")
      << "sampling: {min_samples: 6, max_rel_ci: 10}\nops:\n  - op: rms_norm\n    dtypes: fp32\n"
         "    problems: [{tokens: 2, hidden: [8, 33]}]\n    variants: [host_naive, host_threaded]\n";
  return run_shell("{} tune " + (out / "base.yaml").string() + " --device host --out " + out.string());
}

}  // namespace warptune::testing
