#include "harness/results/sweep_file.h"

#include <gtest/gtest.h>

#include "harness/core/error.h"
#include "tests/sweep_rows.h"

namespace warptune {
namespace {
namespace fs = std::filesystem;
using testing::Fields;
using testing::sweep_fields;
using testing::write_sweep;

/// The error of reading the file, without its path.
std::string said(const fs::path& path) {
  try {
    read_sweep(path);
  } catch (const InputError& e) {
    const std::string text = e.what();
    return text.starts_with(path.string()) ? text.substr(path.string().size()) : text;
  }
  return "";
}

std::string said_of_second_row(const Fields& other) {
  return said(write_sweep("strict.csv", {sweep_fields({}), sweep_fields(other)}));
}

TEST(SweepFile, ReportsTheLineOfAWrongRow) {
  EXPECT_EQ(said_of_second_row({}), "");
  EXPECT_EQ(said_of_second_row({{"status", "crash"}, {"time_us", ""}}), "");
  EXPECT_EQ(said_of_second_row({{"schema", "2"}}), ":3: schema '2'; this program reads schema 1");
  EXPECT_EQ(said_of_second_row({{"status", "fine"}}), ":3: unknown status 'fine'");
  EXPECT_EQ(said_of_second_row({{"cache", "warm"}}), ":3: cache 'warm'; it is cold, hot, isolated or step");
  EXPECT_EQ(said_of_second_row({{"time_us", ""}}), ":3: the status is ok, and time_us is empty");
  for (const char* wrong : {"abc", "nan", "inf", "-1", "0", "1x", " 1"})
    EXPECT_EQ(said_of_second_row({{"time_us", wrong}}),
              ":3: time_us is '" + std::string(wrong) + "', which is not a time");
  EXPECT_EQ(said_of_second_row({{"registers", "many"}}), ":3: registers is 'many', which is not a number");
  EXPECT_EQ(said_of_second_row({{"sm_clock_mhz", "nan"}}),
            ":3: sm_clock_mhz is 'nan', which is not a number");
}

TEST(SweepFile, TheColumnsAreThoseOfTheSchema) {
  std::vector<std::string> columns = sweep_columns();
  columns.push_back("speed");
  EXPECT_EQ(said(write_sweep("extra.csv", {sweep_fields({{"speed", "1"}})}, columns)),
            ":1: a sweep's CSV of schema 1 has no column speed");
  columns = sweep_columns();
  std::erase(columns, "cache");
  EXPECT_EQ(said(write_sweep("less.csv", {sweep_fields({})}, columns)),
            ":1: a sweep's CSV of schema 1 has the column cache, which is missing");
  EXPECT_EQ(said(write_sweep("other.csv", {{{"a", "1"}}}, {"a"})), ":1: this is not the CSV of a sweep");
}

TEST(SweepFile, SamplesAreTimes) {
  const auto with = [](const std::string& samples) {
    Fields row = {{"samples_us", samples}};
    for (const std::string& column : samples_columns()) row.emplace(column, "x");
    return read_samples(write_sweep("strict.samples.csv", {row}, samples_columns())).begin()->second;
  };
  EXPECT_EQ(with("1 2.5"), (std::vector<double>{1, 2.5}));
  for (const char* wrong : {"1 x", "nan", "1,2", "0", "-1"}) EXPECT_THROW(with(wrong), InputError) << wrong;
}

TEST(SweepFile, CommittedSweepsAreReadable) {
  int sweeps = 0;
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(SOURCE_ROOT) / "results"))
    if (entry.path().extension() == ".csv" && looks_like_sweep(csv_columns(entry.path()))) {
      EXPECT_FALSE(read_sweep(entry.path()).empty()) << entry.path();
      ++sweeps;
    }
  EXPECT_GE(sweeps, 5);
}

}  // namespace
}  // namespace warptune
