// scripts/nsys_decode.sh and scripts/nsys_ops.py, with a fake nsys and a small database in nsys's schema
// (docs.nvidia.com/nsight-systems, "SQLite Export Schema Reference").
#include "tests/files.h"
#include "tests/program.h"

namespace warptune {
namespace {
namespace fs = std::filesystem;
using testing::text_of;

/// Two steps: linear twice per step, attention_decode once, and a library's kernel. In the second step
/// linear_mma starts before linear_gemv_split_k ends, and waits for it.
constexpr const char* kRecording = R"(
CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
  correlationId INTEGER, demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, graphNodeId INTEGER);
CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, category INTEGER,
  color INTEGER, text TEXT, globalTid INTEGER, textId INTEGER, domainId INTEGER);
INSERT INTO StringIds VALUES (1, 'linear_gemv_split_k'), (2, 'linear_mma'), (3, 'attention_decode_combine'),
  (4, 'nvjet_hsh_64x8'), (5, 'void linear_mma<4>(LinearArgs)'), (6, 'graph tiny batch=1 context=64');
INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES
  (1000, 3000, 0, 7, 5, 1, 1), (3000, 7000, 0, 7, 5, 2, 2), (7000, 8000, 0, 7, 5, 3, 3), (8000, 8500, 0, 7, 5, 4, 4),
  (9000, 11000, 0, 8, 5, 1, 1), (10000, 15000, 0, 8, 5, 2, 2), (15000, 16000, 0, 8, 5, 3, 3), (16000, 16500, 0, 8, 5, 4, 4);
INSERT INTO NVTX_EVENTS VALUES (0, NULL, 75, NULL, NULL, 'warptune', 1, NULL, 1),
  (900, 9000, 59, 1, 0, 'steady window', 1, NULL, 1), (910, 950, 59, 1, 0, 'step 17', 1, NULL, 1),
  (920, 930, 59, 2, 0, NULL, 1, 6, 1), (960, 990, 59, 1, 0, 'step 18', 1, NULL, 1);
)";

class Nsys : public ::testing::Test {
 protected:
  void SetUp() override {
    std::ofstream(folder_ / "recording.sql") << kRecording;
    const auto made = shell(
        "python3 -c 'import sqlite3, sys; sqlite3.connect(sys.argv[1]).executescript(open("
        "sys.argv[2]).read())' " +
        database() + " " + (folder_ / "recording.sql").string());
    ASSERT_EQ(made.code, 0) << made.text;
  }
  static testing::Ended shell(const std::string& command) { return testing::run_shell(command); }
  static std::string script(const std::string& name) { return SOURCE_ROOT "/scripts/" + name; }
  std::string database() const { return (folder_ / "recording.sqlite").string(); }
  /// An nsys whose `profile` runs the program that follows its options and whose `export` writes the
  /// recording.
  void write_nsys(const fs::path& path) const {
    fs::create_directories(path.parent_path());
    std::ofstream(path) << "#!/bin/bash\necho \"$*\" >> " << (folder_ / "asked").string()
                        << "\n[ $1 = export ] && exec cp " << database() << " \"$7\"\n"
                        << "while [ $1 != --output ]; do shift; done\n"
                           "touch \"$2${RAW:-.nsys-rep}\"\nshift 2\nexec \"$@\"\n";
    fs::permissions(path, fs::perms::owner_all);
  }
  /// Two steps of a small model; `environment` comes first.
  testing::Ended decode_two_steps(const std::string& environment) const {
    return shell(environment + " PROFILE_STEPS=2 WARPTUNE={} " + script("nsys_decode.sh ") +
                 (folder_ / "report").string() +
                 " --device host --model " TEST_DATA "/golden/gqa --prompt-len 3 --steps 4 --out " +
                 folder_.string());
  }
  const fs::path folder_ = testing::fresh_folder("nsys");
};

TEST_F(Nsys, AddsUpTheKernelsOfEachOp) {
  const fs::path csv = folder_ / "ops.csv";
  const auto ended = shell(script("nsys_ops.py ") + database() + " --csv " + csv.string());
  ASSERT_EQ(ended.code, 0) << ended.text;
  EXPECT_EQ(
      ended.text.find("2 steps, per step 7.75 us from the first kernel to the last, 7.50 us in kernels\n"),
      0u)
      << ended.text;
  const auto rows = read_csv(csv);
  ASSERT_EQ(rows.size(), 3u);
  using Row = std::map<std::string, std::string>;
  EXPECT_EQ(rows[0], (Row{{"op", "linear"},
                          {"count", "4"},
                          {"kernel_us", "13.00"},
                          {"exclusive_us", "12.00"},
                          {"average_us", "3.00"},
                          {"share_pct", "80.0"},
                          {"us_per_step", "6.00"}}));
  EXPECT_EQ(rows[1].at("op"), "attention_decode");
  EXPECT_EQ(rows[1].at("exclusive_us"), "2.00");
  EXPECT_EQ(rows[2].at("op"), "nvjet_hsh_64x8") << "a kernel of a library";

  ASSERT_EQ(shell(script("nsys_ops.py ") + database() + " --by kernel --csv " + csv.string()).code, 0);
  const auto kernels = read_csv(csv);
  ASSERT_EQ(kernels.size(), 4u);
  EXPECT_EQ(kernels[0].at("kernel"), "linear_mma");
  EXPECT_EQ(kernels[0].at("us_per_step"), "4.00");
}

TEST_F(Nsys, BadInputIsOneSentence) {
  std::ofstream(folder_ / "text") << std::string(200, 'x');
  const auto empty = shell(
      "python3 -c 'import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute(\"CREATE TABLE a (b)\")' " +
      (folder_ / "empty.sqlite").string());
  ASSERT_EQ(empty.code, 0) << empty.text;
  const std::pair<const char*, const char*> cases[] = {{"none", "is not a file\n"},
                                                       {"text", "is not an SQLite export of nsys"},
                                                       {"empty.sqlite", "holds no kernels"}};
  for (const auto& [file, part] : cases) {
    const auto ended = shell(script("nsys_ops.py ") + (folder_ / file).string());
    EXPECT_EQ(ended.code, 2) << ended.text;
    EXPECT_EQ(ended.text.find("nsys_ops: '"), 0u) << ended.text;
    EXPECT_NE(ended.text.find(part), std::string::npos) << ended.text;
  }
}

TEST_F(Nsys, DecodeRecordsTheLastStepsAndPrintsTheTable) {
  const fs::path nsys = folder_ / "target" / "nsys", report = folder_ / "report";
  write_nsys(nsys);
  const std::string decode =
      " --device host --model " TEST_DATA "/golden/gqa --prompt-len 3 --out " + folder_.string();
  const auto ended = decode_two_steps("NSYS=" + nsys.string());
  ASSERT_EQ(ended.code, 0) << ended.text;
  EXPECT_NE(ended.text.find("\nlinear "), std::string::npos) << ended.text;
  const std::string asked = text_of(folder_ / "asked");
  for (const char* part : {"--capture-range=cudaProfilerApi", "--cuda-graph-trace=node", "--profile-steps 2"})
    EXPECT_NE(asked.find(part), std::string::npos) << asked;
  EXPECT_EQ(read_csv(report.string() + ".csv").size(), 1u);
  EXPECT_FALSE(fs::exists(folder_ / "host" / "decode.csv"))
      << "a run under a profiler is no row of the results";

  // Without its host programs nsys leaves a raw recording, which QdstrmImporter reads.
  fs::remove(report.string() + ".nsys-rep");
  const std::string raw = "RAW=.qdstrm NSYS=" + nsys.string();
  const auto without = decode_two_steps(raw);
  EXPECT_EQ(without.code, 2) << without.text;
  EXPECT_NE(without.text.find("no QdstrmImporter beside"), std::string::npos) << without.text;
  fs::create_directory(folder_ / "importer");
  const fs::path importer = folder_ / "importer" / "QdstrmImporter";
  std::ofstream(importer) << "#!/bin/bash\nmv \"$2\" \"$4\"\n";
  fs::permissions(importer, fs::perms::owner_all);
  EXPECT_EQ(decode_two_steps(raw).code, 0);

  const auto short_run = shell("NSYS=" + nsys.string() + " WARPTUNE={} " + script("nsys_decode.sh ") +
                               report.string() + decode + " --steps 16");
  EXPECT_EQ(short_run.code, 2) << short_run.text;
  EXPECT_NE(short_run.text.find("--profile-steps is 16; it must be below the 16 steps"), std::string::npos)
      << short_run.text;
  const auto missing = shell("NSYS=/nowhere/nsys " + script("nsys_decode.sh ") + report.string());
  EXPECT_EQ(missing.code, 2);
  EXPECT_EQ(missing.text,
            "nsys_decode: /nowhere/nsys is not a program on this machine; NSYS=PATH names it\n");
}

TEST_F(Nsys, IsFoundInTheToolkitOrInNsightCompute) {
  const std::string path = "PATH=/usr/bin:/bin ";
  if (shell(path + "command -v nsys").code == 0) GTEST_SKIP() << "nsys is on the PATH";
  const fs::path toolkit = folder_ / "cuda", nvidia = folder_ / "nvidia";
  const std::string homes = path + "CUDA_HOME=" + toolkit.string() + " NVIDIA_HOME=" + nvidia.string();
  const auto none = decode_two_steps(homes);
  EXPECT_EQ(none.code, 2) << none.text;
  EXPECT_EQ(none.text, "nsys_decode: nsys is not a program on this machine; NSYS=PATH names it\n");
  for (const char* place :
       {"nvidia/nsight-compute/2025.3.0/host/target-linux-x64/nsys",
        "cuda/nsight-compute-2025.3.0/host/target-linux-x64/nsys", "nvidia/nsight-systems/2025.3.2/bin/nsys",
        "cuda/nsight-systems-2025.3.2/bin/nsys", "cuda/bin/nsys"}) {
    fs::remove_all(toolkit);
    fs::remove_all(nvidia);
    write_nsys(folder_ / place);
    const auto ended = decode_two_steps(homes);
    EXPECT_EQ(ended.code, 0) << place << ": " << ended.text;
    EXPECT_NE(ended.text.find("\nlinear "), std::string::npos) << place << ": " << ended.text;
  }
}

}  // namespace
}  // namespace warptune
