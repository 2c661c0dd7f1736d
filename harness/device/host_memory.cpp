#include "harness/device/host_memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

namespace warptune {
namespace {

constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();

/// The number after a word of a file ("MemAvailable: 123 kB"), or the first number if the word is empty.
std::optional<std::uint64_t> number_in(const char* file, const std::string& word) {
  std::ifstream in(file);
  std::string name;
  std::uint64_t number = 0;
  if (word.empty()) return in >> number ? std::optional(number) : std::nullopt;
  while (in >> name)
    if (name == word) return in >> number ? std::optional(number) : std::nullopt;
  return std::nullopt;
}

std::uint64_t page_bytes() { return static_cast<std::uint64_t>(::sysconf(_SC_PAGE_SIZE)); }

std::uint64_t left(std::uint64_t limit, std::uint64_t used) { return limit > used ? limit - used : 0; }

/// Bytes left in the control group (version 2) of a container. Pages of files that were not used for a while
/// count as used there, though the kernel drops them.
std::uint64_t left_in_group() {
  const auto limit = number_in("/sys/fs/cgroup/memory.max", "");  // "max": no number
  const auto used = number_in("/sys/fs/cgroup/memory.current", "");
  if (!limit || !used) return kUnlimited;
  return left(*limit, left(*used, number_in("/sys/fs/cgroup/memory.stat", "inactive_file").value_or(0)));
}

std::uint64_t left_in_address_space() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kUnlimited;
  return left(limit.rlim_cur, number_in("/proc/self/statm", "").value_or(0) * page_bytes());
}

}  // namespace

std::size_t available_host_bytes() {
  const auto kib = number_in("/proc/meminfo", "MemAvailable:");
  const std::uint64_t available =
      kib ? *kib * 1024 : static_cast<std::uint64_t>(::sysconf(_SC_AVPHYS_PAGES)) * page_bytes();
  return std::min({available, left_in_group(), left_in_address_space()});
}

}  // namespace warptune
