#include "harness/llama/decode_file.h"

#include <fmt/format.h>

#include "harness/core/brief.h"
#include "harness/core/error.h"
#include "harness/llama/decode_report.h"

namespace warptune {
namespace {

constexpr const char* kNumbers[] = {"batch",
                                    "prompt_len",
                                    "context",
                                    "steps",
                                    "us_per_token",
                                    "us_per_token_p10",
                                    "us_per_token_p90",
                                    "tokens_per_s",
                                    "prefill_us",
                                    "sum_of_ops_us",
                                    "floor_us",
                                    "pct_floor",
                                    "device_memory_mib"};

/// The error in a row, or empty.
std::string fault_of(const std::map<std::string, std::string>& row) {
  if (row.at("schema") != "1")
    return fmt::format("schema '{}'; this program reads schema 1", brief(row.at("schema")));
  for (const char* column : kNumbers)
    if (const std::string& text = row.at(column); !text.empty() && !number_of(text))
      return fmt::format("{} is '{}', which is not a number", column, brief(text));
  return {};
}

}  // namespace

std::unique_ptr<CsvFile> open_decode_csv(const std::filesystem::path& path,
                                         const std::function<void(const std::string&)>& tell) try {
  auto csv = std::make_unique<CsvFile>(path, decode_columns());
  if (const std::string note = csv->note(); !note.empty()) tell(note);
  for_each_row(path, [&](int line, const auto& row) {
    if (const std::string fault = fault_of(row); !fault.empty())
      throw InputError(fmt::format("{}:{}: {}", path.string(), line, fault));
  });
  return csv;
} catch (const std::exception& e) {  // the user chose the folder: an error is bad input
  throw InputError(e.what());
}

}  // namespace warptune
