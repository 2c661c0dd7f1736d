#include "harness/results/csv.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "harness/core/error.h"
#include "harness/results/row_store.h"
#include "harness/results/sweep_file.h"
#include "harness/results/sweep_row.h"
#include "tests/files.h"
#include "tests/sweep_rows.h"

namespace warptune {
namespace {
namespace fs = std::filesystem;
using testing::text_of;

fs::path fresh_file(const std::string& name) {
  const fs::path path = fs::path(::testing::TempDir()) / name;
  fs::remove(path);
  return path;
}

TEST(Csv, QuotesFieldsThatNeedIt) {
  const fs::path path = fresh_file("quotes.csv");
  CsvFile(path, {"a", "b"}).append({"x,y", "say \"hi\"\nthere"});
  EXPECT_EQ(text_of(path), "a,b\n\"x,y\",\"say \"\"hi\"\"\nthere\"\n");
  const auto rows = read_csv(path);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].at("b"), "say \"hi\"\nthere");
}

TEST(Csv, EveryFieldIsTheSameAfterWritingAndReading) {
  const fs::path path = fresh_file("every_field.csv");
  const std::vector<std::string> fields = {"a\rb", "\r",   "a\r\nb", "\n", ",",
                                           "\"",   "\"\"", "",       " ",  "a\"b\r"};
  CsvFile file(path, {"field", "end"});
  for (const std::string& field : fields) file.append({field, "x"});
  const auto rows = read_csv(path);
  ASSERT_EQ(rows.size(), fields.size());
  for (std::size_t i = 0; i < fields.size(); ++i) EXPECT_EQ(rows[i].at("field"), fields[i]) << i;
}

TEST(Csv, MovesAnIncompleteLine) {
  const fs::path path = fresh_file("torn.csv"), cut = fresh_file("torn.csv.cut");
  std::ofstream(path) << "a,b\n1,2\n3,\"half";
  EXPECT_THROW(read_csv(path), InputError);
  CsvFile(path, {"a", "b"}).append({"5", ""});
  EXPECT_EQ(text_of(path), "a,b\n1,2\n5,\n");
  EXPECT_EQ(text_of(cut), "3,\"half\n");
}

TEST(Csv, CompletesAnIncompleteHeader) {
  for (const char* text : {"", "a", "a,", "a,b"}) {
    const fs::path path = fresh_file("header_torn.csv");
    std::ofstream(path) << text;
    CsvFile(path, {"a", "b"});
    EXPECT_EQ(text_of(path), "a,b\n");
  }
}

TEST(Csv, LeavesEverythingElseAsItIs) {
  using namespace std::string_literals;
  for (const auto& [text, part] : std::vector<std::pair<std::string, std::string>>{
           {"other bytes", ":1: this file has other columns"},
           {"other\nbytes\n", ":1: this file has other columns"},
           {std::string(42000, 'x'), ":1: this file has other columns"},
           {"a,b\n\"1,2\n3,4\n", ":2: this row does not end"},
           {"a,b\n1\",2\n3,4\n", ":2: a quote in the middle of a field"},
           {"a,b\n\"1,\"x\",2\n3,4\n", ":2: text after a closing quote"},
           {"a,b\n1,2\n3,\"half\n", ":3: this row does not end"},
           {"\"a,b\n1,2\n", ":1: this file has other columns"},
           {"a,b\n1,2\n\0\0\0"s, ":3: a NUL byte; the file must be UTF-8"},
           {"a\0,\0b\0\n\0"s, ":1: this is UTF-16; it must be UTF-8"},
           {"\xff\xfe"
            "a\0,\0b\0\n\0"s,
            ":1: this is UTF-16; it must be UTF-8"},
           {"\xfe\xff\0a\0,\0b\0\n"s, ":1: this is UTF-16; it must be UTF-8"},
           {"\xef\xbb\xbf"
            "a,b\n1,2\n"s,
            ":1: this begins with a byte order mark; save it as UTF-8 without one"}}) {
    const fs::path path = fresh_file("left.csv");
    std::ofstream(path, std::ios::binary) << text;
    try {
      CsvFile(path, {"a", "b"});
      ADD_FAILURE() << "took " << text.substr(0, 40);
    } catch (const InputError& e) {
      EXPECT_NE(std::string(e.what()).find("left.csv" + part), std::string::npos) << e.what();
    }
    EXPECT_EQ(text_of(path), text);
  }
}

TEST(Csv, ReadersRefuseWhatTheWriterDoes) {
  const fs::path path = fresh_file("read.csv");
  for (const std::string& text : {std::string("a,b\n1\",2\n"), std::string("a,b\n1,\0\n", 9)}) {
    std::ofstream(path, std::ios::binary) << text;
    EXPECT_THROW(read_csv(path), InputError);
  }
}

TEST(Csv, KeepsRowsAfterAnUnclosedQuote) {
  const fs::path path = fresh_file("stray.csv");
  const std::string text = "a,b\n1,x\n1,\"y\n1,z\n1,w\n";
  std::ofstream(path) << text;
  try {
    CsvFile(path, {"a", "b"});
    FAIL() << "took it for half a row";
  } catch (const InputError& e) {
    EXPECT_NE(std::string(e.what()).find("stray.csv:3: "), std::string::npos) << e.what();
  }
  EXPECT_EQ(text_of(path), text);
}

TEST(Csv, RefusesAnotherHeader) {
  const fs::path path = fresh_file("header.csv");
  std::ofstream(path) << "a,c\n";
  EXPECT_THROW(CsvFile(path, {"a", "b"}), InputError);
}

TEST(Csv, SaysThatAFolderCannotBeWritten) {
  const fs::path path = fresh_file("folder.csv");
  fs::create_directory(path);
  try {
    CsvFile(path, {"a", "b"});
    FAIL() << "a folder is no file";
  } catch (const std::runtime_error& e) {
    EXPECT_NE(std::string(e.what()).find("cannot be written: Is a directory"), std::string::npos) << e.what();
  }
}

TEST(Csv, ReportsTheLineOfAWrongRow) {
  const fs::path path = fresh_file("short.csv");
  std::ofstream(path) << "a,b\n1,2\n3\n";
  try {
    read_csv(path);
    FAIL();
  } catch (const InputError& e) {
    EXPECT_EQ(std::string(e.what()), path.string() + ":3: 1 fields where the header has 2");
  }
}

TEST(SweepRow, GoldenText) {
  SweepRow row{.run = {"run1", "abc", "box"},
               .timestamp_utc = "2026-01-02T03:04:05Z",
               .facts = {.name = "host", .arch = "x86_64"},
               .problem = {"rms_norm", {{"tokens", 1}, {"hidden", 64}}, DType::fp32},
               .variant = "vectorized",
               .config = {{"block", 64}, {"vec", 4}},
               .cache = "cold",
               .cost = {768, 256}};
  row.measurement.detail = "two\nlines";
  row.measurement.time_us = 2;
  row.measurement.floor_us = 0.5;
  row.measurement.samples = 11;
  row.measurement.launches_per_sample = 8;
  const fs::path path = fresh_file("golden.csv");
  CsvFile(path, sweep_columns()).append(fields_of(row));
  EXPECT_EQ(
      text_of(path),
      "schema,run_id,timestamp_utc,git_commit,host,device,arch,driver,toolkit,op,problem,dtype,variant,"
      "config,"
      "status,detail,time_us,time_us_min,time_us_p10,time_us_p90,ci_low_us,ci_high_us,samples,"
      "launches_per_sample,cache,bytes,flops,gb_per_s,tflop_per_s,floor_us,pct_floor,max_abs_err,rel_l2_err,"
      "registers,shared_bytes,spill_bytes,occupancy_pct,sm_clock_mhz,mem_clock_mhz,temperature_c,power_w,"
      "throttled,"
      "compile_ms,code_hash,sampling,step,card,energy_uj,sustained_us,sustained_power_w\n"
      "1,run1,2026-01-02T03:04:05Z,abc,box,host,x86_64,,,rms_norm,"
      "\"rms_norm[tokens=1,hidden=64,dtype=fp32]\",fp32,vectorized,\"block=64,vec=4\",ok,two "
      "lines,2,,,,,,11,8,"
      "cold,768,256,0.384,0.000128,0.5,25,,,,,,,,,,,,,,screened,,,,,\n");
}

TEST(SweepColumns, TheDocumentMatchesTheTableOfColumns) {
  EXPECT_NE(text_of(SOURCE_ROOT "/docs/csv-schema.md").find(columns_markdown()), std::string::npos)
      << "docs/csv-schema.md must contain this table:\n"
      << columns_markdown();
}

TEST(SweepColumns, AFileWithoutTheNewerColumnsIsReadAndExtended) {
  const fs::path folder = fs::path(::testing::TempDir()) / "older_columns";
  fs::create_directories(folder);
  std::vector<std::string> older = sweep_columns();
  for (const char* newer : {"code_hash", "sampling", "mem_clock_mhz"}) std::erase(older, newer);
  write_csv(folder / "sweep.csv", older, {testing::sweep_fields({{"run_id", "one"}, {"time_us", "2.5"}})});
  const auto rows = read_sweep(folder / "sweep.csv");
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows.front().at("code_hash"), "");
  EXPECT_EQ(measurement_of_row(rows.front()).time_us, 2.5);
  EXPECT_TRUE(std::isnan(measurement_of_row(rows.front()).clocks.mem_mhz));
  RowStore(folder, "sweep", false);
  EXPECT_EQ(csv_columns(folder / "sweep.csv"), sweep_columns());
  EXPECT_EQ(read_sweep(folder / "sweep.csv").front().at("run_id"), "one");
}

}  // namespace
}  // namespace warptune
