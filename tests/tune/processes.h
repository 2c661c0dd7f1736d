#pragma once
// Runs `tune` in a process that tests watch and kill.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace warptune::testing {

inline pid_t start_tune(const std::string& sweep, const std::string& out) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    const int null = ::open("/dev/null", O_WRONLY);
    ::dup2(null, 1);
    ::execl(WARPTUNE_PROGRAM, WARPTUNE_PROGRAM, "tune", sweep.c_str(), "--out", out.c_str(), nullptr);
    ::_exit(127);
  }
  return pid;
}

/// The workers of a program: its children.
inline std::vector<pid_t> children_of(pid_t pid) {
  std::vector<pid_t> children;
  for (const auto& task : std::filesystem::directory_iterator(fmt::format("/proc/{}/task", pid))) {
    std::ifstream in(task.path() / "children");
    for (pid_t child; in >> child;) children.push_back(child);
  }
  return children;
}

}  // namespace warptune::testing
