// warptune report RESULTS... -o report.html: results as one page for a browser.
#include <fmt/format.h>

#include <memory>

#include "cli/commands.h"
#include "cli/output_option.h"
#include "harness/core/message.h"
#include "harness/core/print.h"
#include "harness/report/page.h"
#include "variants/table.h"

namespace warptune {
namespace {

OutputKind page_kind() {
  return {.name = "a report page", .is_earlier = [](std::string_view text) {
            return text.starts_with("<!DOCTYPE html>") && text.find("id=\"winner-table\"") != text.npos;
          }};
}

}  // namespace

void add_report(CLI::App& app, int&) {
  auto* command = app.add_subcommand("report", "Makes one self-contained HTML page of results");
  command->footer(
      "Takes CSV files of tune and decode, or folders of them; device.json, wisdom.json, decode.csv and\n"
      "torch_peers.csv next to a CSV are used too. The page needs no network (docs/report.md).\n"
      "Examples:\n"
      "  warptune report results -o report.html\n"
      "  warptune report results/h200/llama2-7b.csv --title 'LLaMA-2 7B on H200'");
  struct Given {
    std::vector<std::string> results;
    std::string title = "warptune report";
    OutputOption output{"report.html"};
  };
  const auto given = std::make_shared<Given>();
  command->add_option("RESULTS", given->results, "CSV files, or folders with CSV files")->required();
  given->output.add_to(*command, "The page");
  command->add_option("--title", given->title, "Its heading")->capture_default_str();
  command->callback([given] {
    const TextOutput output = given->output.open(page_kind(), given->results);
    const ResultsSet set = read_results({given->results.begin(), given->results.end()});
    for (const std::string& note : set.notes) print_note(note);
    output.write(report_page(ops(), set, given->title));
    print("{}: {} rows of sweeps, {} of decode\n", given->output.path(), set.rows.size(), set.decode.size());
  });
}

}  // namespace warptune
