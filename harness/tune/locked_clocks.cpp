#include "harness/tune/locked_clocks.h"

#include <fmt/format.h>

#include <exception>
#include <fstream>

#include "harness/core/print.h"

namespace warptune {
namespace fs = std::filesystem;
namespace {

constexpr ClockDomain kDomains[] = {ClockDomain::sm, ClockDomain::memory};

std::string name_of(ClockDomain domain) { return domain == ClockDomain::sm ? "SM" : "memory"; }

/// Resets these clocks; the first reason why one failed.
std::string reset(ClockControl& clocks, const std::vector<ClockDomain>& domains) {
  std::string why;
  for (const ClockDomain domain : domains)
    if (const std::string reason = clocks.reset(domain); why.empty() && !reason.empty())
      why = fmt::format("{}: {}", name_of(domain), reason);
  return why;
}

/// Writes which clocks of a GPU are locked; false where the file cannot be written.
bool remember(const std::string& id, const std::vector<ClockDomain>& domains) {
  const fs::path path = LockedClocks::file_of(id);
  if (domains.empty()) {
    std::error_code ignored;
    fs::remove(path, ignored);
    return true;
  }
  std::ofstream file(path);
  for (const ClockDomain domain : domains) file << name_of(domain) << '\n';
  return static_cast<bool>(file.flush());
}

std::vector<ClockDomain> remembered(const std::string& id) {
  std::ifstream file(LockedClocks::file_of(id));
  std::vector<ClockDomain> domains;
  for (std::string line; std::getline(file, line);)
    for (const ClockDomain domain : kDomains)
      if (line == name_of(domain)) domains.push_back(domain);
  return domains;
}

}  // namespace

fs::path LockedClocks::file_of(const std::string& id) {
  return fs::temp_directory_path() / fmt::format("warptune-{}.clocks", id);
}

LockedClocks::LockedClocks(const std::vector<std::string>& ids, const ClockRequest& request,
                           const OpenClockControl& open, std::FILE* log)
    : log_(log) {
  signals_.emplace([this] { reset_all(); });
  for (const std::string& id : ids) lock(id, request, open);
}

LockedClocks::~LockedClocks() { reset_all(); }

void LockedClocks::lock(const std::string& id, const ClockRequest& request, const OpenClockControl& open) {
  std::unique_ptr<ClockControl> clocks;
  try {
    if (id == "host") throw std::runtime_error("the host has none that NVML locks");
    clocks = open(id);
  } catch (const std::exception& e) {
    print_error(fmt::format("the clocks of {} are not locked: {}", id, e.what()), log_);
    return;
  }
  const std::lock_guard guard(mutex_);
  Gpu& gpu = locked_.emplace_back(id, std::move(clocks));
  const std::string sm = lock(gpu, ClockDomain::sm, request.sm_mhz),
                    memory = lock(gpu, ClockDomain::memory, request.mem_mhz);
  print_error(fmt::format("clocks of {}: {}, {}", id, sm, memory), log_);
  if (gpu.domains.empty()) locked_.pop_back();
}

/// Returns what happened: "SM 1410 MHz".
std::string LockedClocks::lock(Gpu& gpu, ClockDomain domain, std::optional<unsigned> mhz) {
  const bool is_base = !mhz;
  if (is_base) mhz = gpu.clocks->base_mhz(domain);
  const auto failed = [&](const std::string& why) {
    return fmt::format("{} not locked ({})", name_of(domain), why);
  };
  if (!mhz) return failed("the device reports no application clock");
  // First the file, so that a crash after the call leaves no clock that nobody resets.
  gpu.domains.push_back(domain);
  std::string why = remember(gpu.id, gpu.domains)
                        ? gpu.clocks->lock(domain, *mhz)
                        : fmt::format("'{}' cannot be written", file_of(gpu.id).string());
  if (why.empty())
    return fmt::format("{} {} MHz{}", name_of(domain), *mhz, is_base ? " (application clock)" : "");
  gpu.domains.pop_back();
  remember(gpu.id, gpu.domains);
  return failed(why);
}

void LockedClocks::reset_all() {
  const std::lock_guard guard(mutex_);
  for (Gpu& gpu : locked_) {
    if (const std::string why = reset(*gpu.clocks, gpu.domains); why.empty())
      remember(gpu.id, {});
    else
      print_error(
          fmt::format("the clocks of {} stay locked: {}; `nvidia-smi -rgc -rmc` resets them", gpu.id, why),
          log_);
  }
  locked_.clear();
}

void reset_left_clocks(const std::string& id, const OpenClockControl& open, std::FILE* log) {
  const std::vector<ClockDomain> domains = remembered(id);
  if (domains.empty()) return;
  std::string why;
  try {
    why = reset(*open(id), domains);
  } catch (const std::exception& e) {
    why = e.what();
  }
  if (why.empty()) remember(id, {});
  print_error(fmt::format("the clocks of {}, which a killed warptune left locked, are {}", id,
                          why.empty() ? "reset" : fmt::format("not reset: {}", why)),
              log);
}

}  // namespace warptune
