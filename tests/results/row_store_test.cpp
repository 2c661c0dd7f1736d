#include "harness/results/row_store.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "harness/results/samples_file.h"

namespace warptune {
namespace {
namespace fs = std::filesystem;

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

}  // namespace
}  // namespace warptune
