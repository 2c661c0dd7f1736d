#include "harness/results/row_store.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "harness/core/error.h"
#include "harness/results/sweep_file.h"
#include "tests/sweep_rows.h"

namespace warptune {
namespace {
namespace fs = std::filesystem;
using testing::Fields;
using testing::sweep_fields;

SweepRow row_of(std::int64_t tokens) {
  SweepRow row{.run = {"run1", "abc", "box"},
               .facts = {.name = "host", .arch = "x86_64"},
               .problem = {"rms_norm", {{"tokens", tokens}, {"hidden", 64}}, DType::fp32},
               .variant = "vectorized",
               .cache = "cold"};
  row.measurement.time_us = 2;
  row.measurement.samples = 1;
  row.measurement.samples_us = {2};
  return row;
}

class RowStoreFolder : public ::testing::Test {
 protected:
  void SetUp() override { fs::remove_all(folder_.parent_path()); }
  /// The error of a flush.
  static std::string error_of(RowStore& store) {
    try {
      store.flush();
    } catch (const std::runtime_error& e) {
      return e.what();
    }
    return "no error";
  }
  const fs::path folder_ = fs::path(::testing::TempDir()) / "row_store" / "host";
};

TEST_F(RowStoreFolder, DeletedFilesAreWrittenAnew) {
  RowStore store(folder_, "sweep", false);
  store.begin("run1", {{"a problem", "a stamp"}});
  store.append(row_of(1));
  store.flush();
  fs::remove_all(folder_);
  store.append(row_of(2));
  const std::string error = error_of(store);
  EXPECT_TRUE(
      error.starts_with("the results in '" + folder_.string() + "' are not as this sweep left them: "))
      << error;
  EXPECT_EQ(read_csv(folder_ / "sweep.csv").size(), 2u);
  EXPECT_EQ(read_samples(folder_ / "sweep.samples.csv").size(), 2u);
  EXPECT_EQ(Journal::read(folder_ / "sweep.journal").runs().size(), 1u);
  EXPECT_EQ(error_of(store), error) << "it is told again";
  EXPECT_FALSE(fs::exists(folder_ / "sweep.csv.rescued"));
}

TEST_F(RowStoreFolder, AFileDeletedAfterTheLastRowIsNoticedAtTheEnd) {
  RowStore store(folder_, "sweep", false);
  store.append(row_of(1));
  store.flush();
  fs::remove(folder_ / "sweep.csv");
  EXPECT_NE(error_of(store), "no error");
  EXPECT_EQ(read_csv(folder_ / "sweep.csv").size(), 1u);
}

TEST_F(RowStoreFolder, RowsGoOnInAMovedFile) {
  RowStore store(folder_, "sweep", false);
  fs::rename(folder_, folder_.parent_path() / "moved");
  store.append(row_of(1));
  EXPECT_NE(error_of(store).find("was moved away"), std::string::npos);
  EXPECT_EQ(read_csv(folder_.parent_path() / "moved" / "sweep.csv").size(), 1u);
  EXPECT_FALSE(fs::exists(folder_));
}

/// A row of run r1, as read from a CSV.
Fields known_row(const std::string& config, const std::string& status, const std::string& time,
                 const Fields& more = {}) {
  Fields row = more;
  row.insert({{"run_id", "r1"},
              {"problem", "p"},
              {"variant", "v"},
              {"config", config},
              {"status", status},
              {"time_us", time}});
  return sweep_fields(row);
}

TEST_F(RowStoreFolder, KnowsTheBestRowOfAConfiguration) {
  Journal(folder_ / "sweep.journal").add("r1", {{stamp_name("p", "cold", "v"), "hash options"}});
  write_csv(
      folder_ / "sweep.csv", sweep_columns(),
      {known_row("a", "ok", "1"), known_row("a", "timeout", ""), known_row("b", "timeout", ""),
       known_row("b", "ok", "2"), known_row("b", "ok", "3"), known_row("c", "timeout", ""),
       known_row("c", "constraint", ""), known_row("d", "constraint", ""), known_row("d", "crash", ""),
       known_row("e", "ok", "4", {{"code_hash", "k"}}), known_row("e", "ok", "5", {{"sampling", "finalist"}}),
       known_row("e", "ok", "6", {{"sampling", "finalist"}}),
       known_row("f", "ok", "7", {{"run_id", "unknown"}})});
  RowStore store(folder_, "sweep", false);
  const auto key = [&](const std::string& config, const std::string& stamp = "hash options") {
    return key_of(known_row(config, "ok", "1"), stamp);
  };
  const auto row = [&](const std::string& config) {
    const KnownRow* found = store.known(key(config));
    return found ? fmt::format("{} {} of {}", name_of(found->measurement.status), found->measurement.time_us,
                               found->rows)
                 : "none";
  };
  EXPECT_EQ(row("a"), "ok 1 of 2");
  EXPECT_EQ(row("b"), "ok 3 of 3");
  EXPECT_EQ(row("c").substr(0, 7), "timeout");
  EXPECT_EQ(row("d").substr(0, 5), "crash");
  EXPECT_EQ(row("e"), "ok 4 of 1");
  EXPECT_EQ(row("f"), "none");
  EXPECT_EQ(store.known(key("a"))->run_id, "r1");
  ASSERT_NE(store.later(key("e")), nullptr);
  EXPECT_EQ(store.later(key("e"))->measurement.time_us, 6);
  EXPECT_EQ(store.later(key("a")), nullptr);
  ASSERT_NE(store.known(key("e", "code k options")), nullptr);
  EXPECT_EQ(store.known(key("a", "code k options")), nullptr);
  EXPECT_TRUE(store.has_code("p", "v", "e"));
  EXPECT_FALSE(store.has_code("p", "v", "a")) << "its rows have no code hash";
  EXPECT_FALSE(store.has_code("p", "v", "g")) << "no row";
  EXPECT_FALSE(store.has_code("p", "w", "e"));
}

TEST_F(RowStoreFolder, HasNoCodeWithoutHashes) {
  fs::create_directories(folder_);
  write_csv(folder_ / "sweep.csv", sweep_columns(), {known_row("a", "ok", "1")});
  EXPECT_FALSE(RowStore(folder_, "sweep", false).has_code("p", "v", "a"));
}

TEST_F(RowStoreFolder, ContinuesTheNewestFile) {
  const auto name = [&](bool fresh) { return rows_path(folder_, "s", fresh).filename().string(); };
  fs::create_directories(folder_);
  EXPECT_EQ(name(false), "s.csv");
  EXPECT_EQ(name(true), "s.csv");
  std::ofstream(folder_ / "s.csv");
  EXPECT_EQ(name(false), "s.csv");
  EXPECT_EQ(name(true), "s.2.csv");
  std::ofstream(folder_ / "s.2.csv");
  EXPECT_EQ(name(false), "s.2.csv");
  EXPECT_EQ(name(true), "s.3.csv");
}

TEST_F(RowStoreFolder, AnOlderFileGetsTheNewerColumns) {
  fs::create_directories(folder_);
  std::vector<std::string> columns;
  for (const Column& column : sweep_table())
    if (!column.is_newer) columns.emplace_back(column.name);
  ASSERT_LT(columns.size(), sweep_columns().size());
  std::map<std::string, std::string> row = known_row("a", "ok", "1");
  std::erase_if(row,
                [&](const auto& field) { return std::ranges::find(columns, field.first) == columns.end(); });
  write_csv(folder_ / "sweep.csv", columns, {row});
  {
    RowStore store(folder_, "sweep", false);
    EXPECT_EQ(store.csv(), folder_ / "sweep.csv");
    EXPECT_EQ(store.note(), "");
    store.append(row_of(1));
    store.flush();
  }
  EXPECT_EQ(csv_columns(folder_ / "sweep.csv"), sweep_columns());
  EXPECT_EQ(read_csv(folder_ / "sweep.csv").size(), 2u);
}

TEST_F(RowStoreFolder, AFileThatIsNoSweepStays) {
  fs::create_directories(folder_);
  std::ofstream(folder_ / "sweep.csv") << "a,b\n1,2\n";
  EXPECT_THROW(RowStore(folder_, "sweep", false), InputError);
  EXPECT_EQ(read_csv(folder_ / "sweep.csv").size(), 1u);
}

TEST_F(RowStoreFolder, ARowIsOnTheDiskWithItsSamples) {
  SweepRow without = row_of(2);
  without.measurement.samples_us.clear();
  {
    RowStore store(folder_, "sweep", false);
    for (int i = 0; i < 20; ++i) store.append(row_of(1));
    store.append(without);
  }  // writes the waiting rows
  EXPECT_EQ(read_csv(folder_ / "sweep.csv").size(), 21u);
  EXPECT_EQ(read_csv(folder_ / "sweep.samples.csv").size(), 20u);
}

TEST_F(RowStoreFolder, AnAppendAfterAnErrorThrowsIt) {
  RowStore store(folder_, "sweep", false);
  fs::rename(folder_, folder_.parent_path() / "moved");
  store.append(row_of(1));
  EXPECT_NE(error_of(store), "no error");
  EXPECT_THROW(store.append(row_of(2)), std::runtime_error);
}

}  // namespace
}  // namespace warptune
