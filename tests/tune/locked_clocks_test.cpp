// Clocks that a sweep locks are reset however it ends. The GPU is a fake: a file that logs the calls, which
// another process can read.
#include "harness/tune/locked_clocks.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <stdexcept>

#include "harness/core/error.h"
#include "tests/files.h"
#include "tests/program.h"

namespace warptune {
namespace {

namespace fs = std::filesystem;
using testing::text_of;

class LoggedClocks : public ClockControl {
 public:
  LoggedClocks(fs::path calls, std::string refusal)
      : calls_(std::move(calls)), refusal_(std::move(refusal)) {}
  std::optional<unsigned> base_mhz(ClockDomain domain) const override {
    return domain == ClockDomain::sm ? std::optional(1095u) : std::nullopt;
  }
  std::string lock(ClockDomain domain, unsigned mhz) override {
    return call("lock", domain, " " + std::to_string(mhz));
  }
  std::string reset(ClockDomain domain) override { return call("reset", domain, ""); }

 private:
  std::string call(const char* what, ClockDomain domain, const std::string& rest) {
    std::ofstream(calls_, std::ios::app)
        << what << (domain == ClockDomain::sm ? " sm" : " memory") << rest << '\n';
    return refusal_;
  }
  fs::path calls_;
  std::string refusal_;
};

class Locked : public ::testing::Test {
 protected:
  ~Locked() override {
    std::fclose(log_);
    fs::remove(LockedClocks::file_of(id_));
  }
  OpenClockControl gpu(const std::string& refusal = "") const {
    return [=, this](const std::string&) { return std::make_unique<LoggedClocks>(calls_, refusal); };
  }
  std::string calls() const { return text_of(calls_); }
  std::string said() const {
    std::string text(2000, '\0');
    const ssize_t n = ::pread(::fileno(log_), text.data(), text.size(), 0);
    text.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
    return text;
  }
  /// A child process that locks the clocks, and then ends by a signal.
  int killed_by(int signal) const {
    const pid_t child = ::fork();
    if (child == 0) {
      const LockedClocks locked({id_}, {.sm_mhz = 1410, .mem_mhz = {}}, gpu(), log_);
      ::raise(signal);
      ::sleep(60);  // the signal ends it from another thread
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  }

  const std::string id_ = "GPU-clocks-" + std::to_string(::getpid());
  const fs::path calls_ = testing::fresh_folder("locked_clocks_" + std::to_string(::getpid())) / "calls";
  std::FILE* log_ = std::tmpfile();
};

TEST_F(Locked, TheRequestedClocksAreHeldUntilItEnds) {
  {
    const LockedClocks locked({id_}, {.sm_mhz = 1410, .mem_mhz = 1215}, gpu(), log_);
    EXPECT_EQ(calls(), "lock sm 1410\nlock memory 1215\n");
    EXPECT_EQ(text_of(LockedClocks::file_of(id_)), "SM\nmemory\n");
  }
  EXPECT_EQ(calls(), "lock sm 1410\nlock memory 1215\nreset sm\nreset memory\n");
  EXPECT_FALSE(fs::exists(LockedClocks::file_of(id_)));
  EXPECT_EQ(said(), "warptune: clocks of " + id_ + ": SM 1410 MHz, memory 1215 MHz\n");
}

TEST_F(Locked, WithoutValuesTheApplicationClocks) {
  { const LockedClocks locked({id_}, {}, gpu(), log_); }
  EXPECT_EQ(calls(), "lock sm 1095\nreset sm\n");
  EXPECT_EQ(said(), "warptune: clocks of " + id_ +
                        ": SM 1095 MHz (application clock), memory not locked (the device reports no "
                        "application clock)\n");
}

TEST_F(Locked, WithoutTheRightOneLineSaysWhyAndNothingIsLeft) {
  {
    const LockedClocks locked({id_}, {.sm_mhz = 1410, .mem_mhz = {}}, gpu("Insufficient Permissions"), log_);
    EXPECT_FALSE(fs::exists(LockedClocks::file_of(id_)));
  }
  EXPECT_EQ(calls(), "lock sm 1410\n");
  EXPECT_EQ(said(),
            "warptune: clocks of " + id_ +
                ": SM not locked (Insufficient Permissions), memory not locked (the device reports no "
                "application clock)\n");
}

TEST_F(Locked, WithoutNvmlOneLineSaysSo) {
  const OpenClockControl none = [](const std::string&) -> std::unique_ptr<ClockControl> {
    throw std::runtime_error("there is no NVML");
  };
  { const LockedClocks locked({id_, "host"}, {}, none, log_); }
  EXPECT_EQ(said(), "warptune: the clocks of " + id_ +
                        " are not locked: there is no NVML\n"
                        "warptune: the clocks of host are not locked: the host has none that NVML locks\n");
}

TEST_F(Locked, AnExceptionResetsThem) {
  try {
    const LockedClocks locked({id_}, {.sm_mhz = 1410, .mem_mhz = {}}, gpu(), log_);
    throw std::runtime_error("the sweep failed");
  } catch (const std::runtime_error&) {
  }
  EXPECT_EQ(calls(), "lock sm 1410\nreset sm\n");
}

TEST_F(Locked, ASignalResetsThemAndEndsTheProgram) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    fs::remove(calls_);
    EXPECT_EQ(killed_by(signal), signal);
    EXPECT_EQ(calls(), "lock sm 1410\nreset sm\n") << signal;
    EXPECT_FALSE(fs::exists(LockedClocks::file_of(id_)));
  }
}

TEST_F(Locked, TheNextStartResetsWhatAKilledProgramLeft) {
  EXPECT_EQ(killed_by(SIGKILL), SIGKILL);
  EXPECT_EQ(calls(), "lock sm 1410\n");
  reset_left_clocks(id_, gpu("Insufficient Permissions"), log_);
  EXPECT_TRUE(fs::exists(LockedClocks::file_of(id_))) << "they are still locked";
  reset_left_clocks(id_, gpu(), log_);
  EXPECT_EQ(calls(), "lock sm 1410\nreset sm\nreset sm\n");
  EXPECT_FALSE(fs::exists(LockedClocks::file_of(id_)));
  reset_left_clocks(id_, gpu(), log_);  // nothing is left to do
  EXPECT_EQ(calls(), "lock sm 1410\nreset sm\nreset sm\n");
  EXPECT_NE(said().find("which a killed warptune left locked, are not reset: SM: Insufficient Permissions\n"),
            std::string::npos);
  EXPECT_NE(said().find("which a killed warptune left locked, are reset\n"), std::string::npos);
}

TEST(ClockRequest, IsBaseOrOneOrTwoClocks) {
  EXPECT_FALSE(parse_clock_request("base").sm_mhz);
  EXPECT_EQ(parse_clock_request("1410").sm_mhz, 1410u);
  EXPECT_FALSE(parse_clock_request("1410").mem_mhz);
  EXPECT_EQ(parse_clock_request("1410,1215").mem_mhz, 1215u);
  for (const char* bad : {"", "0", "-1", "1410,", ",1215", "1410 1215", "1410,1215,1", "1e3", "99999", "max"})
    EXPECT_THROW(parse_clock_request(bad), InputError) << bad;
}

TEST(LockClocksOption, TheHostRunsAtItsOwnClocks) {
  const fs::path folder = testing::fresh_folder("lock_clocks_option");
  const std::string tune = "{} tune " + testing::host_sweep(folder, "64", "1") + " --out " + folder.string();
  const auto run = testing::run_shell(tune + " --lock-clocks");
  EXPECT_EQ(run.code, 0) << run.text;
  EXPECT_NE(run.text.find("the clocks of host are not locked"), std::string::npos) << run.text;
  const auto bad = testing::run_shell(tune + " --lock-clocks fast");
  EXPECT_EQ(bad.code, 2);
  EXPECT_NE(
      bad.text.find("--lock-clocks takes base, or SM or SM,MEMORY in MHz such as 1410,1215, not 'fast'"),
      std::string::npos)
      << bad.text;
}

}  // namespace
}  // namespace warptune
