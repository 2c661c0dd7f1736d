// Processes under bounds: what they say when they end, and that nothing of them stays.
#include "harness/custom/child_process.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <thread>

#include "harness/core/error.h"
#include "harness/custom/shared_library.h"
#include "tests/files.h"

namespace warptune {
namespace {
namespace fs = std::filesystem;

/// The sentence of a shell script that runs under bounds; or "none".
std::string sentence_of(const std::string& script, const ChildBounds& bounds = {.seconds = 20}) {
  try {
    run_program("it failed", bounds, {"sh", "-c", script});
  } catch (const InputError& e) {
    return e.what();
  }
  return "none";
}

/// Whether a condition holds within five seconds.
bool soon(const std::function<bool()>& holds) {
  for (int i = 0; i < 500 && !holds(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return holds();
}

/// Whether the process of the number that a file holds has ended.
bool has_ended(const fs::path& number) {
  std::ifstream in(number);
  pid_t pid = 0;
  std::string word, name, state;
  if (!(in >> pid)) return false;
  std::ifstream facts("/proc/" + std::to_string(pid) + "/stat");
  return !(facts >> word >> name >> state) || state == "Z";
}

fs::path fresh(const std::string& name) {
  const fs::path path = fs::path(::testing::TempDir()) / name;
  fs::remove(path);
  return path;
}

TEST(ChildProcess, SaysHowItEnded) {
  EXPECT_EQ(sentence_of("exit 0"), "none");
  EXPECT_EQ(sentence_of("exit 3"), "it failed: it ended with exit code 3");
  EXPECT_EQ(sentence_of("echo a; echo b.cpp:1: error: c; echo d; exit 1"), "it failed: b.cpp:1: error: c");
  EXPECT_EQ(sentence_of("echo a; echo b >&2; exit 1"), "it failed: b");
  EXPECT_EQ(sentence_of("kill -SEGV $$"), "it failed: it died of signal 11 (Segmentation fault)");
  EXPECT_EQ(sentence_of("read line || exit 0; exit 1"), "none") << "it has an input";
  try {
    run_program("it failed", {}, {"no-such-program-at-all"});
    FAIL();
  } catch (const InputError& e) {
    EXPECT_STREQ(e.what(),
                 "it failed: 'no-such-program-at-all' cannot be started: No such file or directory");
  }
}

TEST(ChildProcess, OutputAndTimeAreBounded) {
  EXPECT_EQ(sentence_of("yes", {.seconds = 20, .output_bytes = 1000}),
            "it failed: it printed more than 1000 bytes");
  EXPECT_EQ(sentence_of("sleep 60", {.seconds = 0.2}), "it failed: it ran for more than 0.2 seconds");
}

TEST(ChildProcess, ItsGroupEndsWithIt) {
  const fs::path number = fresh("child_of_child");
  const std::string start = "sleep 300 & echo $! > " + number.string();
  EXPECT_EQ(sentence_of(start), "none") << "waits for a process that inherited its output";
  EXPECT_TRUE(soon([&] { return has_ended(number); }));
  EXPECT_EQ(sentence_of(start + "; wait", {.seconds = 0.5}), "it failed: it ran for more than 0.5 seconds");
  EXPECT_TRUE(soon([&] { return has_ended(number); }));
}

/// The program that waits for it is killed: its processes end, and the folder goes.
TEST(ChildProcess, NothingStaysOfAKilledProgram) {
  const fs::path number = fresh("orphan"), folder = fs::path(::testing::TempDir()) / "orphans_folder";
  fs::create_directories(folder);
  const pid_t program = ::fork();
  if (program == 0) {
    const std::string script = "echo $$ > " + number.string() + "; echo x > $TMPDIR/x; sleep 300";
    run_program("it failed", {}, {"sh", "-c", script}, folder);
    ::_exit(0);
  }
  ASSERT_TRUE(soon([&] { return fs::exists(folder / "x") && !testing::text_of(number).empty(); }));
  EXPECT_FALSE(has_ended(number));
  ::kill(program, SIGKILL);
  ::waitpid(program, nullptr, 0);
  EXPECT_TRUE(soon([&] { return has_ended(number); }));
  EXPECT_TRUE(soon([&] { return !fs::exists(folder); }));
}

TEST(ChildProcess, AFunctionThatCrashesIsASentence) {
  const auto sentence = [](const std::function<void()>& body) {
    try {
      run_child("it failed", {.seconds = 5}, body);
    } catch (const InputError& e) {
      return std::string(e.what());
    }
    return std::string("none");
  };
  EXPECT_EQ(sentence([] {}), "none");
  EXPECT_EQ(sentence([] { throw std::runtime_error("why"); }), "it failed: why");
  EXPECT_EQ(sentence([] { ::raise(SIGKILL); }), "it failed: it died of signal 9 (Killed)");
}

TEST(ChildProcess, MemoryIsShared) {
  const MemoryFile file;
  const std::byte sent[] = {std::byte{1}, std::byte{2}};
  run_child("it failed", {}, [&] { file.write(sent); });
  std::byte got[2] = {}, more[3] = {};
  EXPECT_TRUE(file.read(got));
  EXPECT_EQ(got[1], std::byte{2});
  EXPECT_FALSE(file.read(more));
}

TEST(ChildProcess, ACompilerThatReadsADeviceEnds) {
  const fs::path folder = fs::path(::testing::TempDir()) / "temporary";
  fs::create_directories(folder);
  ::setenv("TMPDIR", folder.c_str(), 1);
  EXPECT_THROW(SharedLibrary("#include \"/dev/zero\"\n", "zero.cpp"), InputError);
  EXPECT_THROW(check_cpp("int x = ;\n", "x.cpp", {}), InputError);
  EXPECT_NO_THROW(check_cpp("int x = 1;\n", "x.cpp", {}));
  ::unsetenv("TMPDIR");
  EXPECT_TRUE(fs::is_empty(folder)) << "folders of compilers are removed";
}

}  // namespace
}  // namespace warptune
