#include "harness/results/durable_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <mutex>
#include <string>
#include <vector>

#include "harness/results/csv.h"
#include "harness/results/journal.h"
#include "harness/results/wisdom.h"
#include "tests/files.h"

namespace {

/// The fsynced files by inode; fsync below replaces the C library's, also for tests with several threads.
std::vector<ino_t> synced;  // NOLINT: the calls of a C function have nowhere else to go
std::mutex synced_mutex;    // NOLINT

}  // namespace

extern "C" int fsync(int file) {
  struct stat facts {};
  if (::fstat(file, &facts) == 0) {
    const std::scoped_lock lock(synced_mutex);
    synced.push_back(facts.st_ino);
  }
  return static_cast<int>(::syscall(SYS_fsync, file));
}

namespace warptune {
namespace {
namespace fs = std::filesystem;
using testing::text_of;

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
  EXPECT_EQ(text_of(folder_ / "a"), "after");
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

TEST_F(DurableFile, ALinkIsWrittenThrough) {
  fs::create_directories(folder_ / "elsewhere");
  std::ofstream(folder_ / "elsewhere" / "target") << "before";
  fs::permissions(folder_ / "elsewhere" / "target", fs::perms::owner_read | fs::perms::owner_write);
  fs::create_symlink("elsewhere/target", folder_ / "one");
  fs::create_symlink("one", folder_ / "two");
  replace_file(folder_ / "two", "after");
  EXPECT_TRUE(fs::is_symlink(folder_ / "one") && fs::is_symlink(folder_ / "two"));
  EXPECT_EQ(text_of(folder_ / "elsewhere" / "target"), "after");
  EXPECT_EQ(fs::status(folder_ / "elsewhere" / "target").permissions(),
            fs::perms::owner_read | fs::perms::owner_write);
  fs::create_symlink("elsewhere/new", folder_ / "dangling");
  replace_file(folder_ / "dangling", "new");
  EXPECT_EQ(text_of(folder_ / "elsewhere" / "new"), "new");
  fs::create_symlink("loop", folder_ / "loop");
  EXPECT_THROW(replace_file(folder_ / "loop", "text"), std::runtime_error);
}

TEST_F(DurableFile, ASpecialFileIsWrittenInPlace) {
  fs::create_directories(folder_);
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  const int reader = ::open((folder_ / "pipe").c_str(), O_RDONLY | O_NONBLOCK);
  replace_file(folder_ / "pipe", "text");
  char buffer[8];
  EXPECT_EQ(::read(reader, buffer, sizeof buffer), 4);
  ::close(reader);
  EXPECT_TRUE(fs::is_fifo(folder_ / "pipe"));
  EXPECT_EQ(file_behind("/dev/null"), "");  // replace_file() itself could damage the machine
  EXPECT_EQ(file_behind("/dev/stdin"), "");
  const std::string descriptor =
      "/proc/self/fd/" + std::to_string(::open((folder_ / "a").c_str(), O_CREAT | O_RDWR, 0644));
  replace_file(descriptor, "through the descriptor");
  EXPECT_EQ(text_of(folder_ / "a"), "through the descriptor");
}

TEST_F(DurableFile, ADeletedFileIsWrittenAnew) {
  fs::create_directories(folder_ / "in");
  const fs::path path = folder_ / "in" / "a";
  const int file = ::open(path.c_str(), O_CREAT | O_RDWR | O_APPEND, 0644);
  write_and_sync(file, "rows", path);
  EXPECT_EQ(rescue(file, path), "");
  fs::remove_all(folder_ / "in");
  EXPECT_NE(rescue(file, path).find("was deleted while it was written; its rows so far are written anew to"),
            std::string::npos);
  EXPECT_EQ(text_of(path), "rows");
  std::ofstream(path) << "another file";
  EXPECT_NE(rescue(file, path).find("a.rescued'"), std::string::npos);
  EXPECT_EQ(text_of(path), "another file");
  EXPECT_EQ(text_of(path.string() + ".rescued"), "rows");
  ::close(file);
}

TEST_F(DurableFile, AMovedFileKeepsItsRows) {
  fs::create_directories(folder_);
  const int file = ::open((folder_ / "a").c_str(), O_CREAT | O_RDWR, 0644);
  fs::rename(folder_ / "a", folder_ / "b");
  EXPECT_NE(rescue(file, folder_ / "a").find("was moved away"), std::string::npos);
  EXPECT_FALSE(fs::exists(folder_ / "a"));
  ::close(file);
}

}  // namespace
}  // namespace warptune
