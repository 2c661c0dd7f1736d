#include "harness/results/wisdom_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "harness/core/brief.h"
#include "harness/core/error.h"
#include "harness/core/input_file.h"
#include "harness/results/durable_file.h"
#include "harness/results/run_info.h"
#include "harness/results/sha256.h"
#include "harness/results/wisdom_file.h"

namespace warptune {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kScheme = "file://";

fs::path folder_of(const std::string& place) {
  const auto colon = place.find("://");
  if (colon == std::string::npos) return place;
  if (!place.starts_with(kScheme))
    throw InputError("'{}' is not a folder; a bucket is used through a folder that it is mounted on",
                     brief(place));
  std::string path = place.substr(kScheme.size());
  if (path.starts_with("localhost/")) path.erase(0, std::strlen("localhost"));
  if (!path.starts_with('/'))
    throw InputError("'{}' names no absolute path; it must be like file:///mnt/team/wisdom", brief(place));
  return path;
}

/// The hash in the name of an object; empty for any other file, such as one that is being written.
std::string hash_of_name(const fs::path& file) {
  const std::string stem = file.stem();
  const bool hex = stem.size() == 64 && stem.find_first_not_of("0123456789abcdef") == std::string::npos;
  return hex && file.extension() == ".json" ? stem : std::string();
}

/// Two writers on two machines never have the same one.
fs::path partial_name(const fs::path& folder) {
  std::random_device random;
  return folder / fmt::format(".partial-{}-{}-{:08x}{:08x}", new_run().host, ::getpid(), random(), random());
}

/// After a crash the object is complete or is not there; a killed writer leaves a file ".partial-...".
void write_object(const fs::path& object, const std::string& text) {
  const fs::path partial = partial_name(object.parent_path());
  OpenFile file(partial, O_WRONLY | O_CREAT | O_EXCL, object);
  std::error_code error;
  try {
    write_and_sync(file.get(), text, object);
    file.close(object);  // some network file systems write only now
    fs::rename(partial, object, error);
    if (error) throw TextError("'{}' cannot be written: {}", object.string(), error.message());
  } catch (...) {
    fs::remove(partial, error);
    throw;
  }
  sync_folder_of(object);
}

/// Whether the wisdom has this very winner, which then needs no judgement: that may have to compile.
template <class AnyWinner>
bool has(const Wisdom& wisdom, const AnyWinner& winner) {
  const AnyWinner* known = wisdom.rival(winner);
  return known && record_of(*known) == record_of(winner);
}

}  // namespace

WisdomStore::WisdomStore(const std::string& place) : folder_(folder_of(place)) {
  std::error_code error;
  if (!fs::is_directory(folder_, error))
    throw InputError("'{}' is not a folder; make it before the first push", brief(folder_.string()));
}

std::vector<std::string> WisdomStore::read(const std::function<void(const Wisdom&)>& use) const {
  std::vector<fs::path> objects;
  std::error_code error;
  for (fs::directory_iterator it(folder_, error), end; !error && it != end; it.increment(error))
    if (!hash_of_name(it->path()).empty()) objects.push_back(it->path());
  if (error) throw InputError("'{}' cannot be listed: {}", folder_.string(), error.message());
  std::ranges::sort(objects);
  std::vector<std::string> sentences;
  for (const fs::path& object : objects) {
    const std::string origin = fmt::format("the object '{}'", object.string());
    std::optional<Wisdom> wisdom;
    try {
      const std::string text = read_input(object, origin, kMaxWisdomBytes);
      if (sha256(text) != hash_of_name(object))
        throw InputError(origin + " is damaged: its bytes do not have the hash that is its name");
      wisdom = parse_wisdom(text, origin);
    } catch (const InputError& e) {
      sentences.push_back(e.what());
    }
    if (wisdom) use(*wisdom);
  }
  return sentences;
}

WisdomStore::Pushed WisdomStore::push(const Wisdom& wisdom) const {
  std::set<std::string> known;
  const std::vector<std::string> damaged = read([&](const Wisdom& object) {
    for (const Winner& winner : object.winners()) known.insert(record_of(winner));
    for (const StepWinner& step : object.steps()) known.insert(record_of(step));
  });
  Wisdom missing(wisdom.provenance());
  for (const Winner& winner : wisdom.winners())
    if (!known.contains(record_of(winner))) missing.put(winner);
  for (const StepWinner& step : wisdom.steps())
    if (!known.contains(record_of(step))) missing.put(step);
  Pushed pushed{.winners = missing.winners().size(), .steps = missing.steps().size(), .damaged = damaged};
  if (pushed.winners + pushed.steps == 0) return pushed;
  const std::string text = missing.to_json();
  pushed.object = folder_ / (sha256(text) + ".json");
  write_object(pushed.object, text);
  return pushed;
}

Pulled pull_wisdom(const WisdomStore& store, const fs::path& file, const Provenance& here,
                   const WinnerJudge& judge) {
  Pulled pulled;
  pulled.changed = change_wisdom(file, here, [&](Wisdom& local) {
    WisdomMerge merge(judge, here);
    const auto take = [&](const auto& winner) {
      if (winner.made_on.device != here.device) {
        ++pulled.other_devices;
      } else if (has(local, winner)) {
        return;
      } else if (const Judgement judgement = judge.judged(winner, here); judgement.use == Use::refused) {
        pulled.refused.insert(refused_winner(winner, fmt::format("{}", fmt::join(judgement.refusals, "; "))));
      } else {
        merge.add(local, winner);
      }
    };
    pulled.damaged = store.read([&](const Wisdom& object) {
      for (const Winner& winner : object.winners()) take(winner);
      for (const StepWinner& step : object.steps()) take(step);
    });
    pulled.refused.insert(merge.refused().begin(), merge.refused().end());
    pulled.winners = local.winners().size();
    pulled.steps = local.steps().size();
  });
  return pulled;
}

}  // namespace warptune
