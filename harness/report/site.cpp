// A folder of pages of a history.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "harness/core/error.h"
#include "harness/core/text_table.h"
#include "harness/report/page.h"
#include "harness/results/sweep_file.h"
#include "harness/results/wisdom.h"

namespace warptune {
namespace {
namespace fs = std::filesystem;

/// The part of a history that one kind of device measured.
struct DeviceHistory {
  std::vector<HistoryFile> files;  // of the newest run
  std::vector<HistoryRun> runs;
  Comparison changes;
};

/// By the part of a file's name that names the device.
std::map<std::string, DeviceHistory> by_device(const fs::path& folder, std::vector<std::string>& notes) {
  const std::vector<HistoryFile> files = history_files(folder);
  ResultsSet set;
  add_history(set, folder);
  if (set.history.empty()) throw InputError("'{}' has no run", folder.string());
  notes = set.notes;
  std::map<std::string, DeviceHistory> devices;
  std::map<std::string, std::string> slugs;  // by the device's name
  for (HistoryRun& run : set.history) {
    for (const TimedConfig& row : run.configs) slugs[row.device] = run.file.device;
    devices[run.file.device].runs.push_back(std::move(run));
  }
  for (RowChange& row : set.changes.rows)
    devices[slugs[row.row().device]].changes.rows.push_back(std::move(row));
  for (auto& [slug, device] : devices) {
    const HistoryFile& newest = device.runs.back().file;
    std::ranges::copy_if(files, std::back_inserter(device.files), [&](const HistoryFile& file) {
      return file.device == slug && file.commit == newest.commit && file.driver == newest.driver &&
             file.run_id >= newest.run_id;
    });
  }
  return devices;
}

std::string index_page(const std::map<std::string, DeviceHistory>& devices, const std::string& title) {
  std::string body;
  for (const auto& [slug, device] : devices) {
    body += fmt::format(
        "<h2><a href=\"{0}.html\">{0}</a></h2>\n<p>{1} slower, {2} faster of {3} rows; {4}.</p>\n",
        html_text(slug), device.changes.count(Change::slower), device.changes.count(Change::faster),
        device.changes.rows.size(), counted(device.runs.size(), "run"));
    body +=
        "<table><thead><tr><th>Run<th>Commit<th>Driver<th>Toolkit<th>Machine<th>Card<th>Rows</tr></"
        "thead><tbody>\n";
    for (const HistoryRun& run : std::vector(device.runs.rbegin(), device.runs.rend()))
      body += fmt::format("<tr><td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}</tr>\n", html_text(run.file.run_id),
                          html_text(run.file.commit), html_text(run.file.driver), html_text(run.toolkit),
                          html_text(run.host), html_text(run.card), run.configs.size());
    body += "</tbody></table>\n";
  }
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta "
      "http-equiv=\"Content-Security-Policy\" "
      "content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\"><link rel=\"icon\" "
      "href=\"data:,\">"
      "<meta name=\"viewport\" content=\"width=device-width, "
      "initial-scale=1\"><title>{0}</title><style>:root{{"
      "color-scheme:light dark}}body{{font:15px/1.45 "
      "system-ui,sans-serif;max-width:1120px;margin:auto;padding:24px "
      "16px}}td,th{{text-align:left;padding:3px 12px 3px 0}}</style></head><body "
      "id=\"warptune-runs\"><h1>{0}</h1>\n"
      "{1}</body></html>\n",
      html_text(title), body);
}

}  // namespace

std::vector<SitePage> site_pages(const OpTable& ops, const fs::path& history, const std::string& title,
                                 std::vector<std::string>& notes) {
  const std::map<std::string, DeviceHistory> devices = by_device(history, notes);
  std::vector<SitePage> pages = {{"index.html", index_page(devices, title)}};
  for (const auto& [slug, device] : devices) {
    ResultsSet set{.history = device.runs, .changes = device.changes};
    for (const HistoryFile& file : device.files)
      for (CsvRow& row : read_sweep(file.path))
        if (row.at("op") != kStepOp) set.rows.push_back(std::move(row));
    pages.push_back({slug + ".html", report_page(ops, set, fmt::format("{}: {}", title, slug))});
  }
  return pages;
}

}  // namespace warptune
