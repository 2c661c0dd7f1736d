// Two programs on one device: the second waits and reports it.
#include "harness/tune/device_lock.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <optional>
#include <thread>

namespace warptune {
namespace {

class Lock : public ::testing::Test {
 protected:
  ~Lock() override {
    std::fclose(log_);
    std::filesystem::remove(DeviceLock::file_of(id_));
  }
  /// What the lock has flushed to the log, also while another thread writes to it.
  std::string said() {
    std::string text(1000, '\0');
    const ssize_t n = ::pread(::fileno(log_), text.data(), text.size(), 0);
    text.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
    return text;
  }
  const std::string id_ = "GPU-test-" + std::to_string(::getpid());
  std::FILE* log_ = std::tmpfile();
};

TEST_F(Lock, TheSecondReportsAndWaitsUntilTheFirstEnds) {
  std::optional<DeviceLock> first(std::in_place, id_, log_);
  EXPECT_EQ(said(), "");
  std::atomic<bool> held = false;
  std::thread other([&] {
    const DeviceLock second(id_, log_);
    held = true;
  });
  // It waits from its report on. Only a hang lets a minute pass.
  for (int i = 0; i < 6000 && said().empty(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_FALSE(held);
  first.reset();
  other.join();
  EXPECT_TRUE(held);
  EXPECT_EQ(said(), "warptune: another warptune uses " + id_ + "; waiting until it has ended\n");
}

TEST_F(Lock, AKilledProgramReleasesTheLock) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const DeviceLock held(id_, log_);
    if (::write(ends[1], "x", 1) == 1) ::sleep(60);
    ::_exit(1);
  }
  ::close(ends[1]);
  char byte = 0;
  ASSERT_EQ(::read(ends[0], &byte, 1), 1) << "the child ended before it held the lock";
  ::close(ends[0]);
  const int file = ::open(DeviceLock::file_of(id_).c_str(), O_RDONLY | O_CLOEXEC);
  EXPECT_GE(file, 0);
  EXPECT_NE(::flock(file, LOCK_EX | LOCK_NB), 0) << "the child does not hold it";
  ::close(file);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  const DeviceLock lock(id_, log_);
  EXPECT_EQ(said(), "");
}

TEST_F(Lock, OtherDevicesAndTheHostAreNotLocked) {
  const DeviceLock first(id_, log_), host("host", log_), again("host", log_);
  EXPECT_EQ(said(), "");
}

}  // namespace
}  // namespace warptune
