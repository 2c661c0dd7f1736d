#include "harness/results/durable_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "harness/results/csv.h"
#include "harness/results/journal.h"
#include "harness/results/wisdom.h"

namespace {

/// The fsynced files by inode; fsync below replaces the C library's.
std::vector<ino_t> synced;  // NOLINT: the calls of a C function have nowhere else to go

}  // namespace

extern "C" int fsync(int file) {
  struct stat facts {};
  if (::fstat(file, &facts) == 0) synced.push_back(facts.st_ino);
  return static_cast<int>(::syscall(SYS_fsync, file));
}

namespace warptune {
namespace {
namespace fs = std::filesystem;

bool was_synced(const fs::path& path) {
  struct stat facts {};
  return ::stat(path.c_str(), &facts) == 0 && std::ranges::count(synced, facts.st_ino) > 0;
}

class DurableFile : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(folder_);
    synced.clear();
  }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), {}));
  }
  const fs::path folder_ = fs::path(::testing::TempDir()) / "durable";
};

TEST_F(DurableFile, AReplacedFileAndItsNameAreOnTheDisk) {
  replace_file(folder_ / "a", "before");
  replace_file(folder_ / "a", "after");
  std::ostringstream text;
  text << std::ifstream(folder_ / "a").rdbuf();
  EXPECT_EQ(text.str(), "after");
  EXPECT_TRUE(was_synced(folder_ / "a"));
  EXPECT_TRUE(was_synced(folder_));
  EXPECT_EQ(files(), 1u);
}

TEST_F(DurableFile, AFailureLeavesNothingBehind) {
  fs::create_directories(folder_ / "a" / "b");  // a folder where the file should be
  EXPECT_THROW(replace_file(folder_ / "a", "text"), std::runtime_error);
  EXPECT_EQ(files(), 1u);
}

TEST_F(DurableFile, AFullDiskIsAnError) {
  const int full = ::open("/dev/full", O_WRONLY);
  ASSERT_GE(full, 0);
  EXPECT_THROW(write_and_sync(full, "text", "/dev/full"), std::runtime_error);
  ::close(full);
}

TEST_F(DurableFile, AFileInTheWorkingFolderHasAFolderToo) {
  fs::create_directories(folder_);
  const fs::path before = fs::current_path();
  fs::current_path(folder_);
  replace_file("a", "text");
  fs::current_path(before);
  EXPECT_TRUE(was_synced(folder_));
}

TEST_F(DurableFile, WisdomIsDurable) {
  Wisdom().save(folder_ / "wisdom.json");
  EXPECT_TRUE(was_synced(folder_ / "wisdom.json"));
  EXPECT_TRUE(was_synced(folder_));
}

TEST_F(DurableFile, ACompleteCsvIsDurable) {
  fs::create_directories(folder_);
  write_csv(folder_ / "a.csv", {"a"}, {{{"a", "1"}}});
  EXPECT_TRUE(was_synced(folder_ / "a.csv"));
  EXPECT_TRUE(was_synced(folder_));
}

TEST_F(DurableFile, RowsAndTheNameOfTheirFileAreDurable) {
  CsvFile file(folder_ / "a.csv", {"a"});
  EXPECT_TRUE(was_synced(folder_));
  synced.clear();
  file.append({"1"});
  EXPECT_TRUE(was_synced(folder_ / "a.csv"));
}

TEST_F(DurableFile, AJournalIsDurable) {
  Journal journal(folder_ / "a.journal");
  EXPECT_TRUE(was_synced(folder_));
  synced.clear();
  journal.add("run", {});
  EXPECT_TRUE(was_synced(folder_ / "a.journal"));
}

}  // namespace
}  // namespace warptune
