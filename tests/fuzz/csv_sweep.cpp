// The CSV of a sweep: the strict reader, its rows as measurements, and the file opened to append rows.
#include "harness/results/csv.h"
#include "harness/results/sweep_file.h"
#include "harness/results/sweep_row.h"
#include "tests/fuzz/fuzz_target.h"

using namespace warptune;

namespace {

void expect_same_rows_after_writing(const std::vector<CsvRow>& rows) {
  const auto copy = fuzz::input_file("copy.csv", "");
  write_csv(copy, sweep_columns(), rows);
  fuzz::promise(read_csv(copy) == rows, "rows are the same after writing and reading");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto path = fuzz::input_file("sweep.csv", fuzz::text_of(data, size));
  fuzz::accept_or_refuse([&] {
    const std::vector<CsvRow> rows = read_sweep(path);
    for (const CsvRow& row : rows) measurement_of_row(row);
    expect_same_rows_after_writing(rows);
  });
  fuzz::accept_or_refuse([&] {
    CsvFile(path, {"a", "b"}).append({"1", "x,\"y\"\r\n"});
    const auto rows = read_csv(path);
    fuzz::promise(!rows.empty() && rows.back().at("b") == "x,\"y\"\r\n", "an appended row can be read");
  });
  return 0;
}
