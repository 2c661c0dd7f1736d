#include "cli/ranks.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>

#include "harness/core/error.h"
#include "harness/core/hash.h"
#include "harness/core/print.h"
#include "harness/core/text.h"
#include "harness/device/device.h"

namespace warptune {
namespace {

constexpr auto kWatchEvery = std::chrono::milliseconds(100);

/// Ends the process when another rank has ended: the device may wait for it forever.
void watch(const std::stop_token& stop, const RankGroup& group, bool by_program) {
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::condition_variable_any waiting;
  const auto wait = [&] { waiting.wait_for(lock, stop, kWatchEvery, [] { return false; }); };
  while (!stop.stop_requested()) {
    wait();
    const int missing = group.missing_rank();
    if (missing < 0) continue;
    wait();  // for the sentence of this rank, if it has one
    if (stop.stop_requested()) return;
    if (!by_program) print_error("rank {} of {} has ended", missing, group.ranks());
    std::_Exit(by_program ? kLostAnotherRank : 1);
  }
}

}  // namespace

Ranks::Ranks(const RankIdentity& identity)
    : group_(std::make_shared<RankGroup>(identity.group, identity.rank, identity.ranks)),
      watch_([group = group_, by_program = identity.by_program](const std::stop_token& stop) {
        watch(stop, *group, by_program);
      }) {}

std::vector<int> Ranks::of_first(std::vector<int> numbers) const {
  if (!group_) return numbers;
  using Part = std::array<int, RankGroup::kMaxMessageBytes / sizeof(int)>;
  numbers.resize(of_first(numbers.size()));
  for (std::size_t done = 0; done < numbers.size(); done += Part().size()) {
    const std::size_t count = std::min(Part().size(), numbers.size() - done);
    const auto begin = numbers.begin() + static_cast<std::ptrdiff_t>(done);
    Part part{};
    std::copy_n(begin, count, part.begin());
    std::copy_n(of_first(part).begin(), count, begin);
  }
  return numbers;
}

std::vector<std::vector<int>> Ranks::of_first(const std::vector<std::vector<int>>& rows) const {
  std::vector<int> lengths, all;
  for (const std::vector<int>& row : rows) {
    lengths.push_back(static_cast<int>(row.size()));
    all.insert(all.end(), row.begin(), row.end());
  }
  lengths = of_first(std::move(lengths));
  all = of_first(std::move(all));
  std::vector<std::vector<int>> result;
  auto begin = all.begin();
  for (const int length : lengths) {
    result.emplace_back(begin, begin + length);
    begin += length;
  }
  return result;
}

std::string Ranks::any_of(const std::string& sentence) const {
  if (!group_) return sentence;
  std::array<char, kMaxMessage + 1> mine{};
  sentence.copy(mine.data(), kMaxMessage);
  for (const auto& text : group_->all_gather(mine))
    if (text[0] != 0) return text.data();
  return {};
}

bool Ranks::is_first_with(const std::string& text) const {
  if (!group_) return true;
  const std::uint64_t hash = stable_hash(text);
  const auto all = group_->all_gather(hash);
  return std::ranges::find(all, hash) - all.begin() == rank();
}

void Ranks::end() {
  if (!group_) return;
  watch_.request_stop();  // ranks may end from now on
  group_->barrier();
}

std::string device_of_rank(const std::string& devices, int rank, int ranks) {
  constexpr std::string_view kAs = " as ";
  const std::size_t as = devices.find(kAs);
  const std::string suffix = as == devices.npos ? "" : devices.substr(as);
  const std::vector<std::string> items = split(devices.substr(0, as), ',');
  if (items.size() > 1 || items[0].starts_with("cuda:")) {
    if (items.size() != static_cast<std::size_t>(ranks))
      throw InputError("--ranks {} needs {} devices; --device names {}", ranks, ranks, items.size());
    return items[rank] + suffix;
  }
  const int count = cuda_device_count();
  if (items[0] != "auto" || count == 0) return devices;
  if (count < ranks) throw InputError("--ranks {} needs {} GPUs; this machine has {}", ranks, ranks, count);
  return fmt::format("cuda:{}{}", rank, suffix);
}

SilentStreams::SilentStreams() : out_(::dup(STDOUT_FILENO)), err_(::dup(STDERR_FILENO)) {
  std::fflush(stdout);
  const int null = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  for (const int stream : {STDOUT_FILENO, STDERR_FILENO}) ::dup2(null, stream);
  ::close(null);
}

SilentStreams::~SilentStreams() {
  std::fflush(stdout);
  ::dup2(out_, STDOUT_FILENO);
  ::dup2(err_, STDERR_FILENO);
  ::close(out_);
  ::close(err_);
}

}  // namespace warptune
