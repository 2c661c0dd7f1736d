// Problems by their keys, and the ops whose dims they have.
#pragma once
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

#include "warptune/detail/json.h"

namespace warptune {

/// A problem: an op, the values of its dims by name, numbers and labels as text, and a dtype.
struct Problem {
  std::string op, dtype;
  std::map<std::string, std::string> dims;

  /// From "rms_norm[tokens=4,hidden=4096,dtype=bf16]".
  static Problem parse(const std::string& key) {
    const auto open = key.find('[');
    if (open == std::string::npos || key.back() != ']')
      throw Error("'" + key + "' is not of the form OP[DIM=VALUE,..,dtype=DTYPE]");
    Problem problem{key.substr(0, open), {}, {}};
    std::istringstream pairs(key.substr(open + 1, key.size() - open - 2));
    for (std::string pair; std::getline(pairs, pair, ',');) {
      const auto equals = pair.find('=');
      if (equals == std::string::npos) throw Error("'" + pair + "' in '" + key + "' is not DIM=VALUE");
      const std::string name = pair.substr(0, equals), value = pair.substr(equals + 1);
      if (name == "dtype")
        problem.dtype = value;
      else if (!problem.dims.emplace(name, value).second)
        throw Error("'" + key + "' has the dim '" + name + "' twice");
    }
    if (problem.dtype.empty()) throw Error("'" + key + "' has no dtype");
    return problem;
  }

  /// The value of a dim of work.
  static std::int64_t number(const std::string& name, const std::string& text) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc() && end == text.data() + text.size()) return value;
    throw Error("dim '" + name + "' is '" + text + "'; it must be an integer");
  }
};

/// The dims of an op.
struct Op {
  struct Dim {
    std::string name, fallback;  // fallback: its value where a problem omits it
    bool has_fallback, is_data;  // is_data: it changes only data, and no plan depends on it
  };
  std::string name;
  std::vector<Dim> dims;

  explicit Op(const detail::Json& json) : name(json["name"].text()) {
    for (const detail::Json& dim : json["dims"].list())
      detail::within("op '" + name + "': " + dim.name(), [&] { dims.push_back(dim_of(dim)); });
  }

  /// The dims of a problem with the defaults that it omits, without those that change only data.
  std::map<std::string, std::string> complete(const Problem& problem) const {
    std::map<std::string, std::string> complete;
    for (const Dim& dim : dims) {
      const auto given = problem.dims.find(dim.name);
      if (given == problem.dims.end() && !dim.has_fallback)
        throw Error(name + " needs the dim '" + dim.name + "'");
      if (!dim.is_data) complete[dim.name] = given == problem.dims.end() ? dim.fallback : given->second;
    }
    for (const auto& [given, value] : problem.dims)
      if (!find(given)) throw Error(name + " has no dim '" + given + "'");
    return complete;
  }

  const Dim* find(const std::string& dim) const {
    const auto it = std::find_if(dims.begin(), dims.end(), [&](const Dim& d) { return d.name == dim; });
    return it == dims.end() ? nullptr : &*it;
  }

 private:
  Dim dim_of(const detail::Json& json) const {
    const std::string &dim = json["name"].text(), &role = json["role"].text();
    if (role != "shape" && role != "work" && role != "parallel" && role != "data")
      throw Error("'role' is '" + role + "'; it must be shape, work, parallel or data");
    if (find(dim)) throw Error("there are two dims '" + dim + "'");
    const detail::Json* fallback = json.find("default");
    return {dim, fallback ? fallback->word() : "", fallback != nullptr, role == "data"};
  }
};

}  // namespace warptune
