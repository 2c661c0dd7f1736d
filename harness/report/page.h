#pragma once
// The report: one self-contained HTML page, or a folder of pages of a history, which a web server shows as it
// is.
#include <filesystem>
#include <string>
#include <vector>

#include "harness/core/op_table.h"
#include "harness/report/summary.h"

namespace warptune {

/// The text as content of an element or of a quoted attribute.
std::string html_text(const std::string& text);

/// template.html with the table of winners and the data of the plots filled in.
std::string report_page(const OpTable& ops, const ResultsSet& set, const std::string& title);

struct SitePage {
  std::string name;  // of the file
  std::string html;
};

/// An index of all devices and runs, and a page for each device: the winners of its newest run with the times
/// of all runs. `notes` gets what is missing. Throws InputError where the history is empty or wrong.
std::vector<SitePage> site_pages(const OpTable& ops, const std::filesystem::path& history,
                                 const std::string& title, std::vector<std::string>& notes);

}  // namespace warptune
