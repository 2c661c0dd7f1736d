// The commands that read results, from outside.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "harness/results/wisdom.h"
#include "tests/files.h"
#include "tests/sweep_rows.h"

namespace warptune {
namespace {
namespace fs = std::filesystem;
using testing::text_of;

/// Runs the program in `folder` and returns its exit code; its output is in folder/said.
int report_code(const fs::path& folder, const std::string& arguments) {
  return WEXITSTATUS(std::system(
      ("cd '" + folder.string() + "' && " WARPTUNE_PROGRAM " " + arguments + " > said 2>&1").c_str()));
}

fs::path scratch(const std::string& name) {
  const fs::path folder = fs::path(::testing::TempDir()) / name;
  fs::remove_all(folder);
  fs::create_directories(folder);
  return folder;
}

TEST(Cli, WisdomIsShownAndExported) {
  const fs::path folder = scratch("cli_wisdom");
  Wisdom wisdom({"NVIDIA H200", "sm_90a", "580", "13.0", "abc"});
  wisdom.put(
      {{"argmax", {{"batch", 1}, {"vocab", 9}}, DType::fp16}, "naive", {{"block", 64}}, 3, "", "", ""});
  wisdom.save(folder / "wisdom.json");
  EXPECT_EQ(report_code(folder, "wisdom show wisdom.json"), 0);
  EXPECT_NE(text_of(folder / "said").find("argmax[batch=1,vocab=9,dtype=fp16]"), std::string::npos);
  EXPECT_EQ(report_code(folder, "wisdom export wisdom.json --format header -o w.h"), 0);
  EXPECT_NE(text_of(folder / "w.h").find("namespace warptune_wisdom"), std::string::npos);
  EXPECT_EQ(report_code(folder, "wisdom export wisdom.json"), 0);
  EXPECT_EQ(text_of(folder / "said"), text_of(folder / "wisdom.json"));
  EXPECT_EQ(report_code(folder, "wisdom show none.json"), 2);
  EXPECT_EQ(report_code(folder, "wisdom export wisdom.json --format xml"), 2);
  EXPECT_EQ(report_code(folder, "wisdom export wisdom.json -o /proc/no/w.json"), 2);
  EXPECT_EQ(report_code(folder, "wisdom export wisdom.json -o /proc/no/w.h --format header"), 2);
}

TEST(Cli, AWinnerThatTheProgramDoesNotKnowIsShownWithAWarningAndNotExported) {
  const fs::path folder = scratch("cli_unknown_wisdom");
  const auto sentence = [&](const Problem& problem, const std::string& variant, const std::string& part) {
    Wisdom wisdom({"NVIDIA H200", "sm_90a", "580", "13.0", "abc"});
    wisdom.put({problem, variant, {}, 3, "", "", ""});
    wisdom.save(folder / "wisdom.json");
    EXPECT_EQ(report_code(folder, "wisdom show wisdom.json"), 0);
    EXPECT_NE(text_of(folder / "said").find(part), std::string::npos) << text_of(folder / "said");
    EXPECT_EQ(report_code(folder, "wisdom export wisdom.json --format header"), 2);
    EXPECT_NE(text_of(folder / "said").find(part), std::string::npos) << text_of(folder / "said");
  };
  sentence({"argmin", {{"batch", 1}}, DType::fp16}, "naive", "unknown op 'argmin'");
  sentence({"argmax", {{"batch", 1}}, DType::fp16}, "naive", "vocab");
  sentence({"argmax", {{"batch", 1}, {"vocab", 9}}, DType::fp16}, "nave", "'nave'");
  EXPECT_EQ(report_code(folder, "wisdom export " SOURCE_ROOT "/results/h200/wisdom.json"), 0)
      << text_of(folder / "said");
}

TEST(Cli, ReportOfAHostSweep) {
  const fs::path folder = scratch("cli_report");
  std::ofstream(folder / "small.yaml")
      << "sampling: {min_samples: 6, max_time: 0.01}\nops:\n  - op: rms_norm\n    dtypes: fp32\n"
         "    problems: [{tokens: 2, hidden: 8}]\n";
  ASSERT_EQ(report_code(folder, "tune small.yaml --device host --out results"), 0)
      << text_of(folder / "said");
  ASSERT_EQ(report_code(folder, "report results -o page.html --title 'A host'"), 0)
      << text_of(folder / "said");
  const std::string page = text_of(folder / "page.html");
  EXPECT_NE(page.find("<h1>A host</h1>"), std::string::npos);
  EXPECT_NE(page.find("rms_norm[tokens=2,hidden=8,dtype=fp32]"), std::string::npos);
  EXPECT_EQ(report_code(folder, "report nothing.csv"), 2);
  EXPECT_EQ(report_code(folder, "report results -o no/such/folder/page.html"), 2);
  EXPECT_EQ(report_code(folder, "report results -o /proc/no/page.html"), 2);
  EXPECT_EQ(report_code(folder, "simulate results/host/small.csv --seeds 2 --csv /proc/no/table.csv"), 2);
  EXPECT_EQ(text_of(folder / "said").find("configurations"), std::string::npos) << "said before the work";
  EXPECT_EQ(report_code(folder, "merge results -o /proc/no"), 2);
}

TEST(Cli, ASiteHasAnIndexAndAPagePerDevice) {
  const fs::path folder = scratch("cli_site");
  std::vector<CsvRow> rows;
  for (int night = 1; night <= 3; ++night)
    for (const char* device : {"NVIDIA H200", "NVIDIA A100"})
      rows.push_back(
          testing::sweep_fields({{"run_id", "2026010" + std::to_string(night) + "T000000Z-" + device[7]},
                                 {"git_commit", "c0ffee"},
                                 {"device", device},
                                 {"driver", "580"},
                                 {"host", "<b>&"},
                                 {"op", "rms_norm"},
                                 {"problem", "rms_norm[tokens=1,hidden=64,dtype=bf16]"},
                                 {"variant", "vectorized"},
                                 {"config", night == 3 ? "block=64" : "block=32"},
                                 {"sampling", "rerun"}}));
  const fs::path csv = testing::write_sweep("site.csv", rows);
  ASSERT_EQ(report_code(folder, "history add runs " + csv.string()), 0);
  ASSERT_EQ(report_code(folder, "report --history runs --site public"), 0) << text_of(folder / "said");
  const std::string index = text_of(folder / "public" / "index.html"),
                    page = text_of(folder / "public" / "h200.html");
  for (const char* part :
       {"<a href=\"a100.html\">", "<a href=\"h200.html\">", "20260102T000000Z-H", "&lt;b&gt;&amp;"})
    EXPECT_NE(index.find(part), std::string::npos) << part;
  EXPECT_EQ(index.find("<b>"), std::string::npos);
  EXPECT_NE(page.find("block=64"), std::string::npos) << "the newest run";
  EXPECT_EQ(page.find("A100"), std::string::npos);
  EXPECT_TRUE(fs::exists(folder / "public" / "a100.html"));
  EXPECT_EQ(report_code(folder, "report --history runs --site public"), 0) << "earlier pages are replaced";
  std::ofstream(folder / "public" / "a100.html") << "a note of the user";
  std::ofstream(folder / "public" / "index.html") << index << "old";
  EXPECT_EQ(report_code(folder, "report --history runs --site public"), 2);
  EXPECT_EQ(text_of(folder / "public" / "a100.html"), "a note of the user");
  EXPECT_TRUE(text_of(folder / "public" / "index.html").ends_with("old"))
      << "nothing is written before a refusal";
  EXPECT_EQ(report_code(folder, "report --site public"), 2);
  EXPECT_EQ(report_code(folder, "report --history none --site public"), 2);
}

}  // namespace
}  // namespace warptune
