#pragma once
// Artificial rows of a sweep's CSV.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "harness/results/csv.h"
#include "harness/results/sweep_row.h"

namespace warptune::testing {

using Fields = std::map<std::string, std::string>;

/// A cold row that is ok; `other` replaces or adds fields.
inline Fields sweep_fields(const Fields& other) {
  Fields row = other;
  row.insert({{"schema", "1"}, {"status", "ok"}, {"cache", "cold"}, {"time_us", "1"}});  // unless given
  for (const std::string& column : sweep_columns()) row.try_emplace(column);
  return row;
}

inline std::filesystem::path write_sweep(const std::string& name, const std::vector<Fields>& rows,
                                         const std::vector<std::string>& columns = sweep_columns()) {
  const auto path = std::filesystem::path(::testing::TempDir()) / name;
  write_csv(path, columns, rows);
  return path;
}

}  // namespace warptune::testing
