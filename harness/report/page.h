#pragma once
// The report: one self-contained HTML page.
#include <string>

#include "harness/core/op_table.h"
#include "harness/report/results_set.h"

namespace warptune {

/// The text as content of an element or of a quoted attribute.
std::string html_text(const std::string& text);

/// template.html with the table of winners and the data of the plots filled in.
std::string report_page(const OpTable& ops, const ResultsSet& set, const std::string& title);

}  // namespace warptune
