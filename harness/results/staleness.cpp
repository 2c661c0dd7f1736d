#include "harness/results/staleness.h"

#include <fmt/format.h>

#include <algorithm>

namespace warptune {
namespace {

/// "580" of "580.159.04".
std::string major_of(const std::string& version) { return version.substr(0, version.find('.')); }

std::string or_unknown(const std::string& text) { return text.empty() ? "unknown" : text; }

}  // namespace

bool is_same_code(const Winner& winner, const Provenance& here, const CodeNow& now) {
  if (winner.source_hash == now.source_hash) return true;
  const Provenance& then = winner.made_on;
  return !winner.code_hash.empty() && then.arch == here.arch && then.toolkit == here.toolkit &&
         now.code_hash && now.code_hash() == winner.code_hash;
}

double least_us(const Winner& winner) {
  double least = winner.time_us;
  for (const TiedConfig& tied : winner.tied) least = std::min(least, tied.time_us);
  for (const VariantTimes& times : winner.times)
    for (const VariantTimes::Row& row : times.rows) least = std::min(least, row.time_us);
  return least;
}

std::string why_too_fast(const Winner& winner, double impossible_us) {
  const double least = least_us(winner);
  // 0 was never measured; no file holds it.
  if (!(least > 0 && least < impossible_us)) return {};
  return fmt::format("too_fast: a time of {:.3g} us is below the {:.3g} us that {} can reach", least,
                     impossible_us, or_unknown(winner.made_on.device));
}

Judgement judge(const Winner& winner, const Provenance& here, const CodeNow& now, StaleCode stale) {
  const Provenance& then = winner.made_on;
  Judgement judgement;
  if (std::string why = why_too_fast(winner, now.impossible_us); !why.empty())
    judgement.refusals.push_back(std::move(why));
  if (then.arch != here.arch)
    judgement.refusals.push_back(
        fmt::format("tuned for architecture {}, this is {}", or_unknown(then.arch), or_unknown(here.arch)));
  else if (then.device != here.device)
    judgement.warnings.push_back(
        fmt::format("tuned on '{}', this is '{}'", or_unknown(then.device), or_unknown(here.device)));
  // Code of another architecture always differs.
  if (then.arch == here.arch && !is_same_code(winner, here, now)) {
    auto& list = stale == StaleCode::use ? judgement.warnings : judgement.refusals;
    list.push_back("tuned on other code of its kernels");
  }
  if (major_of(then.driver) != major_of(here.driver))
    judgement.warnings.push_back(
        fmt::format("tuned with driver {}, this is {}", or_unknown(then.driver), or_unknown(here.driver)));
  if (then.toolkit != here.toolkit)
    judgement.warnings.push_back(
        fmt::format("tuned with toolkit {}, this is {}", or_unknown(then.toolkit), or_unknown(here.toolkit)));
  judgement.use = !judgement.refusals.empty()   ? Use::refused
                  : !judgement.warnings.empty() ? Use::warned
                                                : Use::yes;
  return judgement;
}

bool is_stale(const Winner& winner, const Provenance& here, const CodeNow& now) {
  return judge(winner, here, now).use != Use::yes;
}

bool is_better(const Winner& second, bool second_stale, const Winner& first, bool first_stale) {
  if (second.cache != first.cache) return second.cache == CacheMode::cold;
  return second_stale != first_stale ? first_stale : second.time_us < first.time_us;
}

}  // namespace warptune
