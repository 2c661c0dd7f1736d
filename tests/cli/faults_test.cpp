// Faults from outside: closed streams, links and devices as outputs, files that vanish, full disks.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "harness/results/csv.h"
#include "harness/results/wisdom.h"
#include "tests/files.h"
#include "tests/program.h"

namespace warptune {
namespace {
namespace fs = std::filesystem;
using testing::Ended;
using testing::fresh_folder;
using testing::host_sweep;
using testing::run_shell;
using testing::text_of;

void write(const fs::path& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

std::string tune(const fs::path& folder) {
  return "{} tune " + host_sweep(folder, "64") + " --out " + folder.string();
}

/// The results of a sweep; all tests share it.
const fs::path& tuned() {
  static const fs::path folder = [] {
    const fs::path made = fresh_folder("faults_tuned");
    EXPECT_EQ(run_shell(tune(made)).code, 0);
    return made;
  }();
  return folder;
}

/// A new folder of results for tune(), with the peaks of the device, which take seconds to measure.
fs::path folder_with_peaks(const std::string& name) {
  const fs::path folder = fresh_folder(name);
  fs::create_directories(folder / "host");
  fs::copy_file(tuned() / "host" / "device.json", folder / "host" / "device.json");
  return folder;
}

/// The same with the rows and the winner of a sweep.
fs::path tuned_folder(const std::string& name) {
  const fs::path folder = fresh_folder(name);
  fs::copy(tuned(), folder, fs::copy_options::recursive);
  return folder;
}

/// Expects exit code 2 and one printable line of at most 400 bytes that contains `part`.
void expect_refused(const std::string& command, const std::string& part) {
  const Ended ended = run_shell("timeout 60 " + command, "2>&1 >/dev/null");
  EXPECT_EQ(ended.code, 2) << command << "\n" << ended.text;
  EXPECT_EQ(std::ranges::count(ended.text, '\n'), 1) << ended.text;
  EXPECT_LE(ended.text.size(), 401u) << ended.text;
  EXPECT_TRUE(std::ranges::none_of(ended.text, [](char c) { return c != '\n' && c >= 0 && c < ' '; }));
  EXPECT_NE(ended.text.find(part), std::string::npos) << "no '" << part << "' in:\n" << ended.text;
}

TEST(Faults, AClosedOrFullStderrDoesNotChangeTheExitCode) {
  for (const char* stream : {"2>&-", "2>/dev/full"}) {
    EXPECT_EQ(run_shell("{} no_such_command", stream).code, 2) << stream;
    EXPECT_EQ(run_shell("{} list ops", std::string(">/dev/null ") + stream).code, 0) << stream;
  }
}

TEST(Faults, WhatIsPrintedNeverLandsInAFile) {
  for (const char* closed : {">&-", "2>&-", "<&-", "<&- >&- 2>&-"}) {
    const fs::path out = folder_with_peaks("faults_closed");
    EXPECT_EQ(run_shell(tune(out), closed).code, 0) << closed;
    EXPECT_EQ(std::ranges::count(text_of(out / "host" / "sweep.journal"), '\n'), 1) << closed;
    EXPECT_GT(read_csv(out / "host" / "sweep.csv").size(), 0u) << closed;
  }
}

TEST(Faults, AnUnreadPipeEndsTheProgramInSilence) {
  const fs::path wisdom = fs::path(SOURCE_ROOT) / "results" / "h200" / "wisdom.json";
  for (const char* prefix : {"", "trap '' PIPE; "}) {
    const Ended ended = run_shell(std::string("bash -c \"") + prefix + "{} wisdom export " + wisdom.string() +
                                  " | head -c 10 >/dev/null; exit \\${PIPESTATUS[0]}\"");
    EXPECT_EQ(ended.text, "");
    EXPECT_EQ(ended.code, 141);
  }
}

TEST(Faults, AFileSizeLimitIsAFullDisk) {
  if (testing::kThreadSanitized) GTEST_SKIP() << "needs a program without thread sanitizer";
  const fs::path out = folder_with_peaks("faults_limit");
  const Ended ended = run_shell("bash -c 'ulimit -f 1; " + tune(out) + "'");
  EXPECT_NE(ended.code, 0);
  EXPECT_LE(ended.code, 2) << ended.text;
  EXPECT_NE(ended.text.find("File too large"), std::string::npos) << ended.text;
}

/// The sweep is far longer than the wait for its first rows, so that it cannot end before its folder is
/// deleted.
TEST(Faults, AFolderDeletedDuringASweepIsNamedAndWrittenAnew) {
  const fs::path out = folder_with_peaks("faults_deleted"), results = out / "host";
  const std::string sweep = host_sweep(out, "{from: 8, to: 16384, step: 8}");
  std::ofstream(out / "run.sh") << WARPTUNE_PROGRAM << " tune " << sweep << " --out " << out.string()
                                << " &\nwhile kill -0 $! && [ \"$(cat " << (results / "sweep.csv").string()
                                << " 2>/dev/null | wc -l)\" -lt 10 ]; do sleep 0.02; done\nrm -rf "
                                << results.string() << "\nwait $!\n";
  const Ended ended = run_shell("timeout 250 bash " + (out / "run.sh").string());
  EXPECT_EQ(ended.code, 1) << ended.text;
  EXPECT_NE(
      ended.text.find("warptune: the results in '" + results.string() + "' are not as this sweep left them"),
      std::string::npos)
      << ended.text;
  EXPECT_GE(read_csv(results / "sweep.csv").size(), 9u);
  EXPECT_EQ(Journal::read(results / "sweep.journal").runs().size(), 1u) << "the rows have their keys";
}

TEST(Faults, AForeignFileNamedLikeTheResultsIsLeftAlone) {
  std::string other(42000, 'x');
  other[100] = '\n';
  for (const char* name : {"sweep.csv", "sweep.journal", "sweep.samples.csv", "wisdom.json"}) {
    const fs::path out = folder_with_peaks("faults_foreign");
    write(out / "host" / name, other);
    expect_refused(tune(out), name);
    EXPECT_EQ(text_of(out / "host" / name), other);
  }
}

TEST(Faults, AStrayQuoteInTheFirstRowChangesNothing) {
  const fs::path out = tuned_folder("faults_quote"), csv = out / "host" / "sweep.csv";
  const std::string good = text_of(csv);
  const auto row = good.find('\n') + 1;
  for (const std::size_t at : {row, row + 1, row + 3, row + 40}) {
    std::string bad = good;
    bad.insert(at, "\"");
    write(csv, bad);
    expect_refused(tune(out), "sweep.csv:");
    EXPECT_EQ(text_of(csv), bad);
  }
  write(csv, good.substr(0, good.size() - 5));  // a kill in the last row
  EXPECT_EQ(run_shell(tune(out)).code, 0);
  EXPECT_TRUE(fs::exists(csv.string() + ".cut"));
}

TEST(Faults, ExportedWisdomGoesThroughLinksAndToDevices) {
  const fs::path out = tuned_folder("faults_links");
  const fs::path wisdom = out / "host" / "wisdom.json";
  const std::string whole = run_shell("{} wisdom export " + wisdom.string()).text;
  write(out / "target.json", "before");
  fs::create_symlink("target.json", out / "link.json");
  ASSERT_EQ(::mkfifo((out / "pipe").c_str(), 0600), 0);
  const std::string to = "{} wisdom export " + wisdom.string() + " -o ";
  EXPECT_EQ(run_shell(to + (out / "link.json").string() + " --force").code, 0);
  EXPECT_TRUE(fs::is_symlink(out / "link.json"));
  EXPECT_EQ(text_of(out / "target.json"), whole);
  EXPECT_EQ(
      run_shell("(cat " + (out / "pipe").string() + " & " + to + (out / "pipe").string() + "; wait)").text,
      whole);
  EXPECT_TRUE(fs::is_fifo(out / "pipe"));
  // Not /dev/null itself: a program that renames over it would damage the machine.
  EXPECT_EQ(run_shell(to + "/proc/self/fd/1").text, whole);
}

TEST(Faults, TheWisdomOfASweepStaysALink) {
  const fs::path out = folder_with_peaks("faults_linked");
  fs::create_directories(out / "kept");
  fs::create_symlink("../kept/mine.json", out / "host" / "wisdom.json");
  ASSERT_EQ(run_shell(tune(out)).code, 0);
  EXPECT_TRUE(fs::is_symlink(out / "host" / "wisdom.json"));
  EXPECT_EQ(Wisdom::load(out / "kept" / "mine.json").winners().size(), 1u);
}

TEST(Faults, AHostSweepNeedsNoCubinCache) {
  const fs::path out = folder_with_peaks("faults_cache");
  const Ended ended = run_shell("WARPTUNE_CACHE=/proc/no/cache " + tune(out));
  EXPECT_EQ(ended.code, 0) << ended.text;
}

TEST(Faults, OnlyRegularFilesAreRead) {
  const fs::path folder = fresh_folder("faults_special");
  fs::create_directories(folder / "pipe");
  ASSERT_EQ(::mkfifo((folder / "pipe" / "config.json").c_str(), 0600), 0);
  const std::string decode =
      "{} decode --device host --baseline naive --out " + folder.string() + " --model ";
  expect_refused(decode + (folder / "pipe").string(), "config.json cannot be read: it is not a regular file");
  fs::create_directories(folder / "zero");
  fs::create_symlink("/dev/zero", folder / "zero" / "config.json");
  expect_refused(decode + (folder / "zero").string(), "it is not a regular file");
  expect_refused("{} tune /dev/zero --device host", "it is not a regular file");
  expect_refused("{} tune " + (folder / "pipe" / "config.json").string() + " --device host",
                 "not a regular file");
  expect_refused("{} wisdom show " + folder.string(), "cannot be read: it is a folder");
  expect_refused("{} wisdom show /dev/zero", "it is not a regular file");
  write(folder / "large.yaml", std::string(2 << 20, '#'));
  expect_refused("{} tune " + (folder / "large.yaml").string(),
                 "it has 2097152 bytes; such a file has at most");
}

TEST(Faults, ShardsAndIndicesAreRegularFiles) {
  const fs::path folder = fresh_folder("faults_shards");
  fs::copy(fs::path(TEST_DATA) / "golden" / "gqa" / "config.json", folder / "config.json");
  const std::string decode =
      "{} decode --device host --baseline naive --out " + folder.string() + " --model " + folder.string();
  ASSERT_EQ(::mkfifo((folder / "model.safetensors").c_str(), 0600), 0);
  expect_refused(decode, "model.safetensors cannot be read: it is not a regular file");
  fs::remove(folder / "model.safetensors");
  fs::create_symlink("/dev/zero", folder / "model.safetensors.index.json");
  expect_refused(decode, "index.json cannot be read: it is not a regular file");
}

TEST(Faults, NestedJsonIsRefused) {
  const fs::path folder = fresh_folder("faults_nested");
  const std::string nested = std::string(100000, '[') + std::string(100000, ']');
  const std::string object = "{\"rope_scaling\": " + nested + ", \"model_type\": " + nested + "}";
  const std::string decode =
      "{} decode --device host --baseline naive --out " + folder.string() + " --model " + folder.string();
  write(folder / "config.json", object);
  expect_refused(decode, "nest deeper than 64 levels");
  write(folder / "wisdom.json", "{\"schema\": " + nested + "}");
  expect_refused("{} wisdom show " + (folder / "wisdom.json").string(), "nest deeper than 64 levels");
  fs::copy_file(fs::path(TEST_DATA) / "golden" / "gqa" / "config.json", folder / "config.json",
                fs::copy_options::overwrite_existing);
  const std::string header = "{\"a\": " + nested + "}";
  std::string length(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) length[i] = static_cast<char>(header.size() >> (8 * i) & 0xff);
  write(folder / "model.safetensors", length + header);
  expect_refused(decode, "nest deeper than 64 levels");
  fs::remove(folder / "model.safetensors");
  write(folder / "model.safetensors.index.json", "{\"weight_map\": " + nested + "}");
  expect_refused(decode, "nest deeper than 64 levels");
}

TEST(Faults, ARunThatCannotFitTheMemoryIsRefusedFirst) {
  if (testing::kSanitized) GTEST_SKIP() << "needs a program without sanitizer";
  const fs::path folder = fresh_folder("faults_memory");
  const Ended ended = run_shell(
      "timeout 60 {} decode --device host --preset tinyllama-1.1b --batch 4096 --prompt-len "
      "1048576 --out " +
      folder.string());
  EXPECT_EQ(ended.code, 2) << ended.text;
  EXPECT_NE(ended.text.find(" MiB (weights 4196, KV cache "), std::string::npos) << ended.text;
  EXPECT_NE(ended.text.find(" MiB free"), std::string::npos) << ended.text;
  EXPECT_TRUE(fs::is_empty(folder));
  expect_refused("bash -c 'ulimit -v 4000000; {} decode --device host --preset tinyllama-1.1b --out " +
                     folder.string() + "'",
                 " MiB free");
}

TEST(Faults, NamesInMessagesAreEscapedAndShort) {
  const fs::path folder = fresh_folder("faults_names");
  expect_refused("{} tune $'/no/a\\nb\\x1b[31m.yaml'", "a\\nb\\x1b[31m.yaml");
  const std::string component(300, 'n'), path = "/tmp/" + component + "/" + component;
  expect_refused("{} tune " + path, "File name too long");
  expect_refused("{} wisdom show " + path, "File name too long");
  expect_refused("{} decode --device host --model " + path, "File name too long");
  expect_refused("{} report " + path, "File name too long");
  expect_refused("{} compare " + path + " " + path, "File name too long");
  expect_refused("{} merge " + path + " -o " + folder.string(), "File name too long");
  expect_refused("{} tune " + host_sweep(folder, "64") + " --out " + path, "File name too long");
  expect_refused(
      "{} wisdom export " + fs::path(SOURCE_ROOT).string() + "/results/h200/wisdom.json -o " + path,
      "File name too long");
  write(folder / "config.json", "{\"model_type\": \"" + std::string(5000, 'l') + "\"}");
  expect_refused("{} decode --device host --model " + folder.string(), "model_type");
}

TEST(Faults, CompareRefusesCountsBelowZeroAndNulBytes) {
  const fs::path out = tuned_folder("faults_compare"), csv = out / "host" / "sweep.csv";
  const std::string good = text_of(csv), compare = "{} compare " + csv.string() + " " + csv.string();
  auto rows = read_csv(csv);
  const auto columns = csv_columns(csv);
  for (const char* value : {"-1", "1.5", "1e300"}) {
    rows.front().at("samples") = value;
    write_csv(csv, columns, rows);
    expect_refused(compare, std::string("sweep.csv:2: samples is '") + value + "', which is not a count");
  }
  std::string bad = good;
  bad[good.find('\n') + 3] = '\0';
  write(csv, bad);
  expect_refused(compare, "sweep.csv:2: a NUL byte");
}

}  // namespace
}  // namespace warptune
