// warptune report RESULTS... -o report.html: results as one page for a browser.

#include <memory>

#include "cli/commands.h"
#include "cli/options.h"
#include "harness/core/error.h"
#include "harness/core/print.h"
#include "harness/report/page.h"
#include "variants/table.h"

namespace warptune {
namespace {

OutputKind page_kind() {
  return {.name = "a report page", .is_earlier = [](std::string_view text) {
            return text.starts_with("<!DOCTYPE html>") && (text.find("id=\"winner-table\"") != text.npos ||
                                                           text.find("id=\"warptune-runs\"") != text.npos);
          }};
}

struct ReportArguments {
  std::vector<std::string> results;
  std::string title = "warptune report", history, site;
  OutputOption output{"report.html"};
};

void write_page(const ReportArguments& given) {
  const TextOutput output = given.output.open(page_kind(), given.results);
  ResultsSet set = read_results({given.results.begin(), given.results.end()});
  if (!given.history.empty()) add_history(set, given.history);
  for (const std::string& note : set.notes) print_note(note);
  output.write(report_page(ops(), set, given.title));
  print("{}: {} rows of sweeps, {} of decode\n", given.output.path(), set.rows.size(), set.decode.size());
}

void write_site(const ReportArguments& given) {
  std::vector<std::string> notes;
  const std::vector<SitePage> pages = site_pages(ops(), given.history, given.title, notes);
  for (const std::string& note : notes) print_note(note);
  std::vector<OutputFile> files;  // all are checked before the first is written
  for (const SitePage& page : pages)
    files.emplace_back(std::filesystem::path(given.site) / page.name, page_kind(),
                       std::vector<std::filesystem::path>{given.history}, given.output.is_forced());
  for (std::size_t i = 0; i < pages.size(); ++i) {
    files[i].write(pages[i].html);
    print("{}\n", files[i].path().string());
  }
}

}  // namespace

void add_report(CLI::App& app, int&) {
  auto* command =
      app.add_subcommand("report", "Makes one self-contained HTML page of results, or a site of a history");
  command->footer(
      "Takes CSV files of tune and decode, or folders of them; device.json, wisdom.json, decode.csv and\n"
      "torch_peers.csv next to a CSV are used too. The page needs no network (docs/report.md).\n"
      "Examples:\n"
      "  warptune report results -o report.html\n"
      "  warptune report results/h200/llama2-7b.csv --history history --title 'LLaMA-2 7B on H200'\n"
      "  warptune report --history history --site public");
  const auto given = std::make_shared<ReportArguments>();
  command->add_option("RESULTS", given->results, "CSV files, or folders with CSV files");
  given->output.add_to(*command, "The page");
  command->add_option("--title", given->title, "Its heading")->capture_default_str();
  auto* history = command->add_option("--history", given->history,
                                      "A folder of recorded runs: rows open to their times in all of them");
  command
      ->add_option(
          "--site", given->site,
          "Instead of a page: a folder with an index of the devices and runs of the history, and a page "
          "for each device")
      ->needs(history);
  command->callback([given] {
    if (given->results.empty() == given->site.empty())
      throw InputError("report takes either RESULTS, for a page, or --site with --history");
    given->site.empty() ? write_page(*given) : write_site(*given);
  });
}

}  // namespace warptune
