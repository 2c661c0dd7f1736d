#include "harness/measure/agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "harness/core/rank_group.h"

namespace warptune {

Seconds common_clock(const Device& device, Seconds now) {
  if (!device.group()) return now;
  return [&device, now = std::move(now)] { return device.largest(now()); };
}

Verdict on_all_ranks(const Device& device, Verdict verdict) {
  RankGroup* const group = device.group();
  if (!group || group->ranks() == 1) return verdict;
  struct Message {
    bool ok;
    double max_abs_err, rel_l2_err;
    char detail[960];
  };
  Message mine{verdict.ok, verdict.max_abs_err, verdict.rel_l2_err, {}};
  verdict.detail.copy(mine.detail, sizeof mine.detail - 1);
  const std::vector<Message> all = group->all_gather(mine);
  for (const Message& message : all) {
    verdict.max_abs_err = std::fmax(verdict.max_abs_err, message.max_abs_err);
    verdict.rel_l2_err = std::fmax(verdict.rel_l2_err, message.rel_l2_err);
  }
  if (const auto wrong = std::ranges::find(all, false, &Message::ok); wrong != all.end()) {
    verdict.ok = false;
    verdict.detail = fmt::format("rank {}: {}", wrong - all.begin(), wrong->detail);
  }
  return verdict;
}

void fail_on_all_ranks(const Device& device, Measurement& m) {
  const auto worst = static_cast<Status>(device.largest(static_cast<double>(m.status)));
  if (worst == Status::ok) return;
  m.fail(worst, on_all_ranks(device, {.ok = m.status == Status::ok, .detail = m.detail}).detail);
}

}  // namespace warptune
