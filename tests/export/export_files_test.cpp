// An export replaces what exports wrote and listed, nothing else, and survives a kill at any point.
#include "harness/export/export_files.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "harness/core/error.h"
#include "tests/files.h"
#include "tests/program.h"

namespace warptune {
namespace {
namespace fs = std::filesystem;
using nlohmann::json;
using testing::fresh_folder;
using testing::text_of;

using Cubins = std::map<std::string, std::string>;

/// Machine code by its names.
Cubins cubins_of(const std::vector<std::string>& codes) {
  Cubins cubins;
  for (const std::string& code : codes) cubins[cubin_name(code)] = code;
  return cubins;
}

/// An index that lists them.
std::string index_of(const Cubins& cubins) {
  json stages = json::array();
  for (const auto& [name, code] : cubins) stages.push_back({{"cubin", name}});
  return json{{"schema", 1}, {"warptune", {{"version", "1"}}}, {"plans", {{{"stages", stages}}}}}.dump();
}

void replace(const fs::path& folder, const Cubins& cubins) {
  replace_export(folder, cubins, index_of(cubins));
}

/// All files below a folder with their contents; links by where they lead.
std::map<std::string, std::string> contents_of(const fs::path& folder) {
  std::map<std::string, std::string> contents;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_symlink())
      contents[fs::relative(entry.path(), folder)] = "-> " + fs::read_symlink(entry.path()).string();
    else if (!entry.is_directory())
      contents[fs::relative(entry.path(), folder)] = text_of(entry.path());
  return contents;
}

std::map<std::string, std::string> contents_of(const Cubins& cubins) {
  std::map<std::string, std::string> contents = cubins;
  contents["warptune.json"] = index_of(cubins);
  return contents;
}

TEST(ExportFiles, ANewExportTakesThePlaceOfTheEarlierOne) {
  const fs::path folder = fresh_folder("export_files");
  const Cubins first = cubins_of({"a", "b"}), second = cubins_of({"b", "c", "d"});
  EXPECT_TRUE(files_of_exports(folder).empty());
  replace(folder, first);
  EXPECT_EQ(contents_of(folder), contents_of(first));
  const auto kept = fs::last_write_time(folder / cubin_name("b"));
  replace(folder, second);
  EXPECT_EQ(contents_of(folder), contents_of(second));
  EXPECT_EQ(fs::last_write_time(folder / cubin_name("b")), kept) << "equal code is not written again";
  replace(fresh_folder("export_files_parent") / "new", first);
  EXPECT_EQ(contents_of(fs::path(::testing::TempDir()) / "export_files_parent" / "new"), contents_of(first));
}

/// A folder with an export, changed by `change`, is refused and stays as it is.
void expect_refused(const std::function<void(const fs::path&)>& change, const std::string& part) {
  const fs::path folder = fresh_folder("export_foreign");
  replace(folder, cubins_of({"a", "b"}));
  change(folder);
  const auto before = contents_of(folder);
  try {
    replace(folder, cubins_of({"c"}));
    FAIL() << part;
  } catch (const InputError& e) {
    EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
  }
  EXPECT_EQ(contents_of(folder), before) << part;
}

void write(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file) << text;
}

TEST(ExportFiles, AFolderWithAnythingElseIsRefused) {
  expect_refused([](const fs::path& f) { write(f / "notes.txt", "mine"); }, "'notes.txt'");
  expect_refused([](const fs::path& f) { write(f / ".hidden", ""); }, "'.hidden'");
  expect_refused([](const fs::path& f) { write(f / "folder" / "file", "mine"); }, "'folder'");
  expect_refused([](const fs::path& f) { fs::create_directory(f / "empty"); }, "'empty'");
  expect_refused([](const fs::path& f) { write(f / "cubins" / "mine.cubin", "mine"); },
                 "'cubins/mine.cubin'");
  expect_refused([](const fs::path& f) { write(f / cubin_name("other"), "other"); }, "wrote and listed");
  expect_refused([](const fs::path& f) { write(f / cubin_name("a"), "changed"); }, "has changed");
  expect_refused([](const fs::path& f) { fs::create_directory(f / "cubins" / "more"); }, "'cubins/more'");
  expect_refused([](const fs::path& f) { write(f / "warptune.json", "{}"); }, "which no export wrote");
  expect_refused([](const fs::path& f) { write(f / "warptune.json", ""); }, "which no export wrote");
  expect_refused([](const fs::path& f) { fs::remove(f / "warptune.json"); }, "wrote and listed");
  expect_refused([](const fs::path& f) { write(f / "warptune.unfinished", "my list"); },
                 "'warptune.unfinished'");
  expect_refused(
      [](const fs::path& f) {
        fs::remove(f / cubin_name("a"));
        fs::create_symlink("/etc/passwd", f / cubin_name("a"));
      },
      "wrote and listed");
  expect_refused(
      [](const fs::path& f) {
        fs::rename(f / "warptune.json", f.parent_path() / "export_foreign_index.json");
        fs::create_symlink(f.parent_path() / "export_foreign_index.json", f / "warptune.json");
      },
      "'warptune.json'");
  expect_refused(
      [](const fs::path& f) {
        fs::rename(f / "cubins", f.parent_path() / "export_foreign_cubins");
        fs::create_directory_symlink(f.parent_path() / "export_foreign_cubins", f / "cubins");
      },
      "'cubins'");
}

/// An index of the user cannot make an export remove other files.
TEST(ExportFiles, NamesInAnIndexLeadNowhere) {
  for (const std::string name : {"../victim", "/etc/passwd", "cubins/../../victim", "victim",
                                 "cubins/victim.cubin", "cubins/0123456789abcde/.cubin", ""})
    expect_refused(
        [&](const fs::path& f) {
          json index = json::parse(text_of(f / "warptune.json"));
          index["plans"][0]["stages"].push_back({{"cubin", name}});
          write(f / "warptune.json", index.dump());
        },
        "which no export wrote");
  const fs::path folder = fresh_folder("export_list") / "winners", victim = folder.parent_path() / "victim";
  std::ofstream(victim) << "mine";
  replace(folder, cubins_of({"a"}));
  write(folder / "warptune.unfinished",
        "Files of a warptune export that has not ended:\n../victim\n" + victim.string() + "\nnotes.txt\n");
  replace(folder, cubins_of({"b"}));
  EXPECT_EQ(text_of(victim), "mine");
  EXPECT_EQ(contents_of(folder), contents_of(cubins_of({"b"})));
}

TEST(ExportFiles, ALinkToAFolderStaysALink) {
  const fs::path folder = fresh_folder("export_link");
  fs::create_directory(folder / "real");
  fs::create_directory_symlink("real", folder / "link");
  replace(folder / "link", cubins_of({"a"}));
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
  EXPECT_EQ(contents_of(folder / "real"), contents_of(cubins_of({"a"})));
}

/// The folder holds one of the exports, as far as its index says; nothing of it is missing or cut.
void expect_complete(const fs::path& folder, const Cubins& first, const Cubins& second) {
  const std::string index = text_of(folder / "warptune.json");
  ASSERT_TRUE(index == index_of(first) || index == index_of(second)) << index;
  for (const auto& [name, code] : index == index_of(first) ? first : second)
    ASSERT_EQ(text_of(folder / name), code) << name;
}

TEST(ExportFiles, AKillLeavesTheEarlierOrTheNewExport) {
  std::vector<std::string> old_codes, new_codes;
  for (int i = 0; i < 40; ++i) {
    old_codes.push_back("old " + std::to_string(i));
    new_codes.push_back(std::string(100'000, 'n') + std::to_string(i));
  }
  const Cubins first = cubins_of(old_codes), second = cubins_of(new_codes);
  int killed = 0;
  for (int wait_ms = 0; wait_ms < 60; wait_ms += 3) {
    const fs::path folder = fresh_folder("export_kill") / "winners";
    replace(folder, first);
    const pid_t child = ::fork();
    if (child == 0) {
      try {
        replace(folder, second);
      } catch (...) {
        ::_exit(1);
      }
      ::_exit(0);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(wait_ms));
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    killed += WIFSIGNALED(status);
    expect_complete(folder, first, second);
    ASSERT_NO_THROW(replace(folder, second)) << "after a kill at " << wait_ms << " ms";
    ASSERT_EQ(contents_of(folder), contents_of(second));
  }
  EXPECT_GT(killed, 0);
}

TEST(ExportFiles, ADiskThatRefusesLeavesTheEarlierExport) {
  if (testing::kThreadSanitized) GTEST_SKIP() << "TSan maps files of its own";
  const Cubins first = cubins_of({"a"}), second = cubins_of({"b", std::string(1 << 20, 'c')});
  for (const bool is_new : {false, true}) {
    const fs::path parent = fresh_folder("export_full"), folder = parent / "winners";
    if (!is_new) replace(folder, first);
    const pid_t child = ::fork();
    if (child == 0) {
      ::signal(SIGXFSZ, SIG_IGN);
      const rlimit limit{1 << 16, 1 << 16};
      ::setrlimit(RLIMIT_FSIZE, &limit);
      try {
        replace(folder, second);
      } catch (const std::runtime_error&) {
        ::_exit(3);
      }
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(WEXITSTATUS(status), 3);
    if (is_new)
      EXPECT_TRUE(fs::is_empty(parent));
    else
      EXPECT_EQ(contents_of(folder), contents_of(first));
  }
}

}  // namespace
}  // namespace warptune
