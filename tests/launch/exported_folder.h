#pragma once
// An exported folder for include/warptune/launch.h, without the program: tests/data/launch/valid.json,
// changed. The driver is python/tests/fake_driver.cpp. The harness is not linked: its namespace
// has other types of the same names.
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "warptune/launch.h"

namespace warptune::testing {

inline nlohmann::json read_json(const std::string& name) {
  return nlohmann::json::parse(std::ifstream(LAUNCH_DATA "/" + name));
}

/// A folder of this test, with one cubin.
class ExportedFolder {
 public:
  explicit ExportedFolder(const std::string& content = read_json("valid.json").dump()) {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    path_ = std::filesystem::path(::testing::TempDir()) / test->name();
    std::filesystem::create_directories(path_ / "cubins");
    std::ofstream(path_ / "cubins" / "1.cubin") << "machine code";
    std::ofstream(path_ / "warptune.json") << content;
  }
  ~ExportedFolder() { std::filesystem::remove_all(path_); }
  ExportedFolder(const ExportedFolder&) = delete;
  ExportedFolder& operator=(const ExportedFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Sets the members that nothing else sets.
inline void set_required(Args& args, std::int64_t number) {
  for (const Field& f : args.layout().fields())
    if (!f.tensor.empty() || f.is_workspace)
      args.set(f.name, std::uintptr_t{4096});
    else if (f.is_required && f.is_real())
      args.set(f.name, 1.0);
    else if (f.is_required)
      args.set(f.name, number);
}

/// Opens a folder and launches the largest problem of each plan.
inline void launch_all(const std::filesystem::path& path) {
  Folder folder(path.string());
  for (const Entry& entry : folder.entries()) {
    const Plan plan = folder.load(entry.problem);
    const Workspace workspace(plan.workspace_bytes());
    Args args = plan.args();
    set_required(args, 128);
    plan.launch(args, nullptr);
  }
}

/// The message of the Error of a call; empty if it throws none.
template <class Call>
std::string error_of(const Call& call) {
  try {
    call();
    return {};
  } catch (const Error& e) {
    return e.what();
  }
}

}  // namespace warptune::testing
