#pragma once
// A folder of pages of a history, which a web server shows as it is.
#include <filesystem>
#include <string>
#include <vector>

#include "harness/core/op_table.h"

namespace warptune {

struct SitePage {
  std::string name;  // of the file
  std::string html;
};

/// An index of all devices and runs, and a page for each device: the winners of its newest run with the times
/// of all runs. `notes` gets what is missing. Throws InputError where the history is empty or wrong.
std::vector<SitePage> site_pages(const OpTable& ops, const std::filesystem::path& history,
                                 const std::string& title, std::vector<std::string>& notes);

}  // namespace warptune
