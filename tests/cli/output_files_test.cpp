// No command that writes loses a file of the user: inputs, results, sources, notes.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "tests/files.h"
#include "tests/program.h"

namespace warptune {
namespace {
namespace fs = std::filesystem;
using testing::Ended;
using testing::fresh_folder;
using testing::run_shell;
using testing::text_of;

/// What an option that writes does.
struct Writer {
  std::string option;  // "wisdom export --output"
  std::string
      arguments;  // OUT is the output; RESULTS the folder of a sweep on the host, DATA that of the tests
  std::string plant = {};   // a file below OUT that the command would write; empty: OUT itself is the file
  bool has_force = false;   // takes --force
  bool needs_cuda = false;  // only a program with kernels gets as far
};

const std::vector<Writer>& writers() {
  static const std::string traces = "DATA/exchange/rmsnorm_h4096.json DATA/exchange/rmsnorm_h4096.jsonl";
  static const std::string decode = "decode --model DATA/golden/gqa --device host --prompt-len 4 --steps 1 ";
  static const std::vector<Writer> list = {
      {"report --output", "report RESULTS/host/base.csv -o OUT", {}, true},
      {"report --site", "report --history RESULTS/history --site OUT", "index.html", true},
      {"compare --output", "compare RESULTS/host/base.csv RESULTS/host/base.csv -o OUT", {}, true},
      {"compare --output",
       "compare RESULTS/host/base.csv RESULTS/host/base.csv --format json -o OUT",
       {},
       true},
      {"compare --output",
       "compare RESULTS/host/base.csv RESULTS/host/base.csv --format markdown -o OUT",
       {},
       true},
      {"compare --output",
       "compare RESULTS/host/base.csv RESULTS/host/base.csv --format junit -o OUT",
       {},
       true},
      {"compare --output",
       "compare RESULTS/host/base.csv RESULTS/host/base.csv --format google-benchmark -o OUT",
       {},
       true},
      {"compare --output",
       "compare RESULTS/host/base.csv RESULTS/host/base.csv --format bencher -o OUT",
       {},
       true},
      {"history check --output", "history check RESULTS/history -o OUT", {}, true},
      {"wisdom export --output", "wisdom export RESULTS/host/wisdom.json -o OUT", {}, true},
      {"wisdom export --output", "wisdom export RESULTS/host/wisdom.json --format header -o OUT", {}, true},
      {"wisdom export --output",
       "wisdom export RESULTS/host/wisdom.json --format benchmark -o OUT",
       {},
       true},
      {"wisdom check --output", "wisdom check RESULTS/old.json -o OUT", {}, true},
      {"wisdom watch --output", "wisdom watch RESULTS/host/wisdom.json -o OUT", {}, true},
      {"export-t4 --output", "export-t4 RESULTS/host/base.csv --problem hidden=8, -o OUT", {}, true},
      {"import-trace --output", "import-trace " + traces + " -o OUT", {}, true},
      {"bench --benchmark_out",
       "bench --wisdom RESULTS/host/wisdom.json --device host --problem hidden=8, "
       "--benchmark_min_time=0.001 --benchmark_out=OUT",
       {},
       true},
      {"simulate --csv", "simulate RESULTS/host/base.csv --seeds 2 --csv OUT"},
      {"inspect --csv", "inspect RESULTS/base.yaml --arch sm_80 --csv OUT"},
      {"counters --csv",
       "counters rms_norm/naive --problem tokens=3,hidden=64 --config block=128 --device cuda:0 --csv OUT"},
      {"decode --csv", decode + "--csv OUT"},
      // These have names of their own below a folder.
      {"decode --out", decode + "--out OUT", "host/decode.csv"},
      {"decode --dump-layers", decode + "--dump-layers OUT", "step-0000.safetensors"},
      {"tune --out", "tune RESULTS/base.yaml --device host --out OUT", "host/base.csv"},
      {"tune --out", "tune RESULTS/base.yaml --device host --out OUT", "host/wisdom.json"},
      {"tune --out", "tune RESULTS/base.yaml --device host --out OUT", "host/device.json"},
      {"rerun --out", "rerun RESULTS/host/wisdom.json --device host --out OUT", "host/regress.csv"},
      {"calibrate --out", "calibrate --device host --out OUT", "host/device.json"},
      {"merge --out", "merge RESULTS -o OUT", "host/base.csv"},
      {"merge --out", "merge RESULTS -o OUT", "host/wisdom.json"},
      {"wisdom pull --out", "wisdom pull RESULTS/empty --device host --out OUT", "host/wisdom.json"},
      {"new kernel --out", "new kernel rms_norm -o OUT", "my_rms_norm.yaml", false, true},
      {"new op --out", "new op my_scale -o OUT", "my_scale.yaml"},
      {"export --output", "export --wisdom RESULTS/host/wisdom.json --problem rms_norm --arch sm_90a -o OUT",
       "notes.txt"},
      {"quantize --out", "quantize --model DATA/golden/gqa --weights int8 -o OUT", "model.safetensors"},
      {"export-trace --output", "export-trace " + traces + " --results RESULTS/trace.csv -o OUT",
       "traces/rmsnorm/rmsnorm_h4096.jsonl", true, true},
      {"profile --output",
       "profile rms_norm/naive --problem tokens=2,hidden=64 --config block=128 --device cuda:0 -o OUT/report",
       "report.sources/rms_norm/naive.cu", true, true},
  };
  return list;
}

/// Options whose names say that they write, and that write nothing that exists.
const std::set<std::string> kWriteNothingThatExists = {
    "compare --confirm-out",                  // a new folder per run
    "wisdom push --out", "wisdom list --out"  // they read OUT; push adds an object of a new name
};

/// Adds the options of a command and its subcommands whose names say that they write.
void add_options(const CLI::App& command, const std::string& path, std::set<std::string>& found) {
  static const std::regex writes("(.*-)?(out|output|csv|dump|save|write|record|report|log)(-.*)?");
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames())
      if (option->get_type_size() > 0 && std::regex_match(name, writes)) found.insert(path + " --" + name);
  for (const CLI::App* part : command.get_subcommands([](const CLI::App*) { return true; }))
    add_options(*part, path.empty() ? part->get_name() : path + " " + part->get_name(), found);
}

TEST(OutputOptions, EveryOneIsTried) {
  CLI::App app;
  int code = 0;
  add_commands(app, code);
  std::set<std::string> options, tried = kWriteNothingThatExists;
  add_options(app, "", options);
  for (const Writer& writer : writers()) tried.insert(writer.option);
  for (const std::string& option : options)
    EXPECT_TRUE(tried.contains(option)) << "'" << option << "' is not in the table of this test";
  EXPECT_GE(options.size(), 20u);
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (auto at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

class OutputFiles : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    const Ended tuned = testing::tune_rms_norm(results_);
    ASSERT_EQ(tuned.code, 0) << tuned.text;
    fs::create_directories(results_ / "empty");
    fs::create_directories(results_ / "tools");
    // Winners of other sources.
    std::ofstream(results_ / "old.json")
        << std::regex_replace(text_of(results_ / "host" / "wisdom.json"), std::regex("\"source_hash\": ?\"."),
                              "\"source_hash\": \"_");
    // The row of a GPU for the traces, and an ncu that reads one kernel.
    std::string rows = text_of(results_ / "host" / "base.csv"), heading = rows.substr(0, rows.find('\n') + 1);
    std::ofstream(results_ / "tools" / "ncu")
        << "#!/bin/sh\nprintf '\"ID\",\"Kernel Name\",\"gpu__time_duration.sum\"\\n\"\",\"\",\"ns\"\\n'\n"
           "printf '\"0\",\"void rms_norm_naive<1>(Args)\",\"2,500\"\\n'\n";
    fs::permissions(results_ / "tools" / "ncu", fs::perms::owner_all);
    std::ofstream(results_ / "trace.csv") << heading << trace_row(heading);
    // A history of one row, and a Python that finds no change in it.
    std::ofstream nights(results_ / "nights.csv");
    nights << heading;
    for (int i = 0; i < 18; ++i)
      nights << trace_row(heading,
                          "202601" + std::to_string(10 + i / 3) + "T00000" + std::to_string(i % 3) + "Z-0");
    nights.close();
    const Ended added = run_shell("{} history add " + (results_ / "history").string() + " " +
                                  (results_ / "nights.csv").string());
    ASSERT_EQ(added.code, 0) << added.text;
    std::ofstream(results_ / "tools" / "python") << "#!/bin/sh\nread -r line\necho '{\"changes\": [[]]}'\n";
    fs::permissions(results_ / "tools" / "python", fs::perms::owner_all);
  }

  /// A row of rms_norm[tokens=1,hidden=4096,dtype=bf16] with the fields that traces need.
  static std::string trace_row(const std::string& heading, const std::string& run_id = "") {
    const std::map<std::string, std::string> fields = {
        {"schema", "1"},
        {"run_id", run_id},
        {"sampling", run_id.empty() ? "" : "rerun"},
        {"op", "rms_norm"},
        {"problem", "\"rms_norm[tokens=1,hidden=4096,dtype=bf16]\""},
        {"variant", "vectorized"},
        {"config", "\"block=256,rows=1,vec=8,cache_hint=none,pdl=0\""},
        {"cache", "cold"},
        {"status", "ok"},
        {"time_us", "2"},
        {"device", "NVIDIA H200"}};
    std::string row, name;
    for (const char c : heading) {
      if (c != ',' && c != '\n') {
        name += c;
        continue;
      }
      const auto field = fields.find(name);
      row += (field == fields.end() ? "" : field->second) + c;
      name.clear();
    }
    return row;
  }

  Ended run(const Writer& writer, const fs::path& out, const std::string& more = "") const {
    std::string arguments = replaced(writer.arguments, "RESULTS", results_.string());
    arguments = replaced(replaced(arguments, "DATA", TEST_DATA), "OUT", out.string());
    const std::string tools = (results_ / "tools").string();
    return run_shell("PATH=" + tools + ":$PATH WARPTUNE_PYTHON=" + tools + "/python {} " + arguments + " " +
                     more);
  }

  static void expect_refused(const Ended& ended, const Writer& writer) {
    EXPECT_EQ(ended.code, 2) << writer.arguments << "\n" << ended.text;
    EXPECT_LE(std::ranges::count(ended.text, '\n'), 2) << writer.arguments << "\n" << ended.text;
  }

  static bool is_skipped([[maybe_unused]] const Writer& writer) {
#if WARPTUNE_HAS_CUDA
    return false;
#else
    return writer.needs_cuda;
#endif
  }

  static inline const fs::path results_ = fresh_folder("output_files_results");
  const fs::path folder_ = fresh_folder("output_files");
};

TEST_F(OutputFiles, FilesOfAnotherKindAreNotReplaced) {
  const std::pair<std::string, std::string> foreign[] = {
      {"rows.csv", text_of(results_ / "trace.csv")},
      {"other.csv", "month,euros\n1,2\n"},
      {"wisdom.json", text_of(results_ / "host" / "wisdom.json")},
      {"sweep.yaml", text_of(results_ / "base.yaml")},
      {"notes.txt", "mine"},
      {"data.json", "{\"mine\": 1}\n"},
  };
  for (const Writer& writer : writers()) {
    if (is_skipped(writer)) continue;
    for (const auto& [name, text] : foreign) {
      const fs::path out = fresh_folder("output_files/out");
      const fs::path file = writer.plant.empty() ? out / name : out / writer.plant;
      if (!writer.plant.empty() && name != "data.json" && name != "other.csv") continue;
      fs::create_directories(file.parent_path());
      std::ofstream(file) << text;
      expect_refused(run(writer, writer.plant.empty() ? file : out), writer);
      EXPECT_EQ(text_of(file), text) << writer.arguments << " replaced " << file;
    }
  }
}

TEST_F(OutputFiles, AnInputIsNeverAnOutput) {
  const fs::path wisdom = results_ / "host" / "wisdom.json", rows = results_ / "host" / "base.csv";
  const std::string wisdom_text = text_of(wisdom), rows_text = text_of(rows);
  fs::create_symlink(rows, folder_ / "link.html");
  fs::create_hard_link(rows, folder_ / "hard.html");
  fs::create_symlink(wisdom, folder_ / "link.h");
  for (const Writer& writer : writers()) {
    if (!writer.plant.empty()) continue;
    for (const fs::path& out : {rows, wisdom, folder_ / "link.html", folder_ / "hard.html",
                                folder_ / "link.h", results_ / "empty" / ".." / "host" / "base.csv"})
      for (const std::string force : {"", "--force"}) {
        if (!force.empty() && !writer.has_force) continue;
        expect_refused(run(writer, out, force), writer);
      }
    EXPECT_EQ(text_of(wisdom), wisdom_text) << writer.arguments;
    EXPECT_EQ(text_of(rows), rows_text) << writer.arguments;
  }
  for (const char* name : {"rmsnorm_h4096.json", "rmsnorm_h4096.jsonl"})
    fs::copy_file(fs::path(TEST_DATA) / "exchange" / name, folder_ / name);
  const std::string definition = text_of(folder_ / "rmsnorm_h4096.json");
  const std::string import =
      "cd " + folder_.string() + " && {} import-trace rmsnorm_h4096.json rmsnorm_h4096.jsonl -o ";
  for (const std::string out : {"rmsnorm_h4096.json", "./rmsnorm_h4096.jsonl --force"})
    EXPECT_EQ(run_shell(import + out).code, 2) << out;
  EXPECT_EQ(text_of(folder_ / "rmsnorm_h4096.json"), definition);
}

TEST_F(OutputFiles, AnEarlierOutputIsReplacedAndANoteOnlyWithForce) {
  for (const Writer& writer : writers()) {
    if (!writer.has_force || is_skipped(writer)) continue;
    const fs::path out = fresh_folder("output_files/force");
    const fs::path file = writer.plant.empty() ? out / "output" : out / writer.plant;
    const fs::path argument = writer.plant.empty() ? file : out;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << "a note of the user";
    EXPECT_EQ(run(writer, argument).code, 2) << writer.arguments;
    const Ended forced = run(writer, argument, "--force");
    EXPECT_LT(forced.code, 2) << writer.arguments << "\n" << forced.text;
    const std::string text = text_of(file);
    EXPECT_NE(text, "a note of the user") << writer.arguments;
    const bool is_wisdom = text.starts_with("{\"schema\"");
    EXPECT_EQ(run(writer, argument).code == 2, is_wisdom) << writer.arguments << ": an earlier output";
  }
}

TEST_F(OutputFiles, LinksStayLinksAndNothingIsWrittenBeforeARefusal) {
  const std::string report = "{} report " + (results_ / "host").string() + " -o ";
  fs::create_symlink(folder_ / "page.html", folder_ / "link");
  EXPECT_EQ(run_shell(report + (folder_ / "link").string()).code, 0) << "a link to nothing yet";
  EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
  EXPECT_TRUE(text_of(folder_ / "page.html").starts_with("<!DOCTYPE html>"));
  EXPECT_EQ(run_shell(report + (folder_ / "link").string()).code, 0) << "a link to an earlier page";
  EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
  std::ofstream(folder_ / "log") << "a log\n";
  EXPECT_EQ(run_shell("(" + report + "/dev/stdout >> " + (folder_ / "log").string() + ")").code, 2);
  EXPECT_EQ(text_of(folder_ / "log"), "a log\n");
  EXPECT_EQ(run_shell(report + folder_.string()).code, 2) << "a folder";
  EXPECT_EQ(run_shell(report + (results_ / "host" / "device.json").string() + " --force").code, 2);
}

TEST_F(OutputFiles, AnObjectOfASharedFolderIsNoLocalFile) {
  const fs::path store = folder_ / "store", wisdom = results_ / "host" / "wisdom.json";
  fs::create_directories(store);
  ASSERT_EQ(run_shell("{} wisdom push " + store.string() + " --wisdom " + wisdom.string()).code, 0);
  const fs::path object = fs::directory_iterator(store)->path();
  const std::string text = text_of(object);
  const Ended pulled = run_shell("{} wisdom pull " + store.string() + " --wisdom " + object.string());
  EXPECT_EQ(pulled.code, 2) << pulled.text;
  EXPECT_EQ(text_of(object), text);
}

TEST_F(OutputFiles, NamesFromFilesLeadNowhere) {
  const fs::path inside = folder_ / "inside";
  fs::create_directories(inside);
  const std::string definition = text_of(fs::path(TEST_DATA) / "exchange" / "rmsnorm_h4096.json"),
                    workloads = text_of(fs::path(TEST_DATA) / "exchange" / "rmsnorm_h4096.jsonl");
  for (const std::string name :
       {"../../x", "..", "", "a/b", "/tmp/warptune-x", ".hidden", "a\\u0000b", "a\\nb"})
    for (const std::string key : {"name", "op_type"}) {
      std::ofstream(inside / "d.json") << std::regex_replace(
          definition, std::regex("\"" + key + "\": \"[^\"]*\""), "\"" + key + "\": \"" + name + "\"");
      std::ofstream(inside / "w.jsonl") << replaced(workloads, "\"definition\": \"rmsnorm_h4096\", ", "");
      const std::string arguments = (inside / "d.json").string() + " " + (inside / "w.jsonl").string();
      const Ended ended = run_shell("{} export-trace " + arguments + " --results " +
                                    (results_ / "trace.csv").string() + " -o " + (inside / "out").string());
      EXPECT_EQ(ended.code, 2) << key << " " << name << ended.text;
      EXPECT_NE(ended.text.find("d.json"), std::string::npos) << ended.text;
    }
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
  EXPECT_FALSE(fs::exists(inside / "out"));
}

}  // namespace
}  // namespace warptune
