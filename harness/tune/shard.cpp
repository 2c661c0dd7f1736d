#include "harness/tune/shard.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>

#include "harness/core/brief.h"
#include "harness/core/error.h"
#include "harness/core/hash.h"

namespace warptune {

Shard parse_shard(const std::string& text) {
  Shard shard;
  const char *at = text.data(), *end = text.data() + text.size();
  const auto index = std::from_chars(at, end, shard.index);
  const bool slash = index.ec == std::errc() && index.ptr != end && *index.ptr == '/';
  const auto count = slash ? std::from_chars(index.ptr + 1, end, shard.count) : index;
  if (!slash || count.ec != std::errc() || count.ptr != end || shard.index < 1 || shard.index > shard.count)
    throw InputError(
        fmt::format("--shard '{}' must be I/N with I from 1 to N, for example 1/4", brief(text)));
  return shard;
}

std::vector<PlannedProblem> keep_shard(std::vector<PlannedProblem> problems, Shard shard) {
  if (shard.count == 1) return problems;
  std::vector<PlannedProblem> kept;
  for (PlannedProblem& p : problems) {
    const std::string problem = fmt::format("{} {} ", p.item->problem.key(), name_of(p.item->options.cache));
    const auto elsewhere = [&](const Candidate& c) {
      const auto hash = stable_hash(problem + c.variant->name + ' ' + c.config.str());
      return hash % static_cast<std::uint64_t>(shard.count) != static_cast<std::uint64_t>(shard.index - 1);
    };
    std::erase_if(p.candidates, elsewhere);
    std::erase_if(p.excluded, [&](const Excluded& e) { return elsewhere(e.candidate); });
    for (SpaceCount& count : p.counts)
      count.tried = std::ranges::count(p.candidates, count.variant, &Candidate::variant);
    if (!p.candidates.empty() || !p.excluded.empty()) kept.push_back(std::move(p));
  }
  return kept;
}

std::vector<std::vector<PlannedProblem>> deal(std::vector<PlannedProblem> problems, int devices) {
  const auto count = static_cast<std::size_t>(devices);
  std::vector<std::size_t> order(problems.size()), work(count, 0), owner(problems.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::stable_sort(order, std::greater<>(),
                           [&](std::size_t i) { return problems[i].candidates.size(); });
  for (const std::size_t i : order) {
    const auto least = static_cast<std::size_t>(std::ranges::min_element(work) - work.begin());
    owner[i] = least;
    work[least] += std::max<std::size_t>(problems[i].candidates.size(), 1);
  }
  std::vector<std::vector<PlannedProblem>> shares(count);
  for (std::size_t i = 0; i < problems.size(); ++i) shares[owner[i]].push_back(std::move(problems[i]));
  return shares;
}

std::vector<std::string> split_devices(const std::string& devices) {
  std::vector<std::string> names;
  for (std::size_t at = 0; at <= devices.size();) {
    const auto comma = std::min(devices.find(',', at), devices.size());
    if (comma > at) names.push_back(devices.substr(at, comma - at));
    at = comma + 1;
  }
  if (names.empty()) throw InputError("--device is empty; it must be auto, host, cuda:N, all or a list");
  return names;
}

}  // namespace warptune
