#include "harness/core/op_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <stdexcept>

#include "harness/core/brief.h"
#include "harness/core/error.h"
#include "harness/core/expression.h"
#include "harness/core/lookup.h"
#include "harness/core/space.h"

namespace warptune {

OpTable::OpTable(std::vector<OpEntry> entries, std::vector<Tile> tiles)
    : entries_(std::move(entries)), tiles_(std::move(tiles)) {
  for (OpEntry& entry : entries_) declare(entry);
  for (Tile& tile : tiles_) tile.when = tile.when.resolve(variables_of({}, find(tile.op).op.dims), "tile");
}

const OpEntry* OpTable::find_if_known(std::string_view op) const {
  const auto it = std::ranges::find_if(entries_, [&](const OpEntry& entry) { return entry.op.name == op; });
  return it == entries_.end() ? nullptr : &*it;
}

const OpEntry& OpTable::find(std::string_view op) const {
  if (const OpEntry* entry = find_if_known(op)) return *entry;
  std::vector<std::string> known;
  for (const OpEntry& entry : entries_) known.push_back(entry.op.name);
  throw InputError("unknown op '{}'{}", brief(op), did_you_mean(op, known));
}

const Variant* OpEntry::find_variant(std::string_view name) const { return find_named(variants, name); }

const Variant& OpEntry::variant(std::string_view name) const {
  if (const Variant* found = find_variant(name)) return *found;
  throw InputError("op '{}' has no variant '{}'; it has {}", op.name, brief(name),
                   listed(names_of(variants)));
}

std::string DefaultTile::origin() const {
  return fmt::format("{}; {}", tile->source,
                     tile->measured_on.empty() ? "not measured" : "measured on " + tile->measured_on);
}

namespace {

/// A word of Tile::config.
struct Word {
  const Parameter* parameter;
  bool at_most;
  std::string bound;
};

std::vector<Word> words_of(const Tile& tile, const Variant& variant) {
  std::vector<Word> words;
  std::istringstream text(tile.config);
  for (std::string word; text >> word;) {
    const auto end = word.find_first_of("<=");
    const Parameter* parameter = find_named(variant.parameters, word.substr(0, end));
    if (end == std::string::npos || !parameter)
      throw std::logic_error(fmt::format("default tile: '{}' sets no parameter of '{}'", word, variant.name));
    const bool at_most = word[end] == '<';
    words.push_back({parameter, at_most, word.substr(end + (at_most ? 2 : 1))});
  }
  return words;
}

/// Searches the configurations that a tile allows for the first that satisfies the constraints.
class TileSearch {
 public:
  TileSearch(const Tile& tile, const Variant& variant, const Problem& problem, const DeviceFacts& facts)
      : variant_(variant), words_(words_of(tile, variant)), space_(variant, problem, facts) {
    const NamedValues known = known_values(problem, facts);
    for (const Parameter& p : variant.parameters) names_.push_back(p.name);
    values_.resize(names_.size());
    for (std::size_t i = 0; i < known.names.size(); ++i) {
      if (contains(names_, known.names[i])) continue;
      names_.push_back(known.names[i]);
      values_.push_back(known.values[i]);
    }
  }
  std::optional<Config> first() { return from(0); }

 private:
  std::optional<Config> from(std::size_t word) {
    if (word == words_.size()) {
      Config config;
      for (std::size_t i = 0; i < variant_.parameters.size(); ++i) {
        const Parameter& p = variant_.parameters[i];
        const auto value = static_cast<std::int64_t>(values_[i]);
        config.set(p.name, value, label_at(p.labels, value));
      }
      return space_.broken_constraint(config) ? std::nullopt : std::optional(config);
    }
    const Word& w = words_[word];
    for (const std::int64_t value : values_for(w)) {
      values_[w.parameter - variant_.parameters.data()] = static_cast<double>(value);
      if (auto config = from(word + 1)) return config;
    }
    return std::nullopt;
  }

  /// The values that a word allows, best first.
  std::vector<std::int64_t> values_for(const Word& w) const {
    const auto& labels = w.parameter->labels;
    const auto label = std::ranges::find(labels, w.bound);
    const double bound = label != labels.end() ? static_cast<double>(label - labels.begin())
                                               : Evaluator(Expression(w.bound, "tile"), names_)(values_);
    std::vector<std::int64_t> values = w.parameter->values;
    std::ranges::sort(values, std::greater());
    const std::int64_t least = values.back();
    std::erase_if(values, [&](std::int64_t value) {
      const auto v = static_cast<double>(value);
      return w.at_most ? v > bound : v != bound;
    });
    if (values.empty() && w.at_most) values = {least};
    return values;
  }

  const Variant& variant_;
  std::vector<Word> words_;
  Space space_;
  std::vector<std::string> names_;  // parameters, then known values
  std::vector<double> values_;
};

}  // namespace

std::vector<DefaultTile> OpTable::default_tiles(const Problem& problem, const DeviceFacts& facts,
                                                std::string_view variant) const {
  std::vector<DefaultTile> fitting;
  const NamedValues known = known_values(problem, facts);
  for (const Tile& tile : tiles_) {
    if (tile.op != problem.op || (!variant.empty() && tile.variant != variant)) continue;
    const Variant& v = find(tile.op).variant(tile.variant);
    if (!v.runs(problem, facts.backend) || Evaluator(tile.when, known.names)(known.values) == 0) continue;
    if (auto config = TileSearch(tile, v, problem, facts).first()) fitting.push_back({&tile, &v, *config});
  }
  return fitting;
}

}  // namespace warptune
