// warptune wisdom push|pull|list: the wisdom of a team in a shared folder, and the files that are in use
// here.
#include <fmt/format.h>

#include <memory>

#include "cli/commands.h"
#include "cli/wisdom_in_use.h"
#include "harness/core/print.h"
#include "harness/core/text_table.h"
#include "harness/results/output_file.h"
#include "harness/results/wisdom_store.h"
#include "variants/table.h"

namespace warptune {
namespace {

namespace fs = std::filesystem;

struct WisdomShareArguments {
  std::string store, wisdom, device, output = "results";
};

std::string winners_and_steps(std::size_t winners, std::size_t steps) {
  return counted(winners, "winner") + " and " + counted(steps, "step");
}

/// --wisdom, else OUT/<device>/wisdom.json.
fs::path local_file(const WisdomShareArguments& given) {
  if (!given.wisdom.empty()) return given.wisdom;
  const DeviceFacts facts = facts_of_device(given.device.empty() ? "auto" : given.device);
  return fs::path(given.output) / facts.slug() / "wisdom.json";
}

void push(const WisdomShareArguments& given) {
  const WisdomStore store(given.store);
  const auto pushed = store.push(Wisdom::load(local_file(given)));
  for (const std::string& sentence : pushed.damaged) print_error(sentence);
  if (pushed.object.empty())
    print("{} has all of it\n", store.folder().string());
  else
    print("pushed {}: {}\n", winners_and_steps(pushed.winners, pushed.steps), pushed.object.string());
}

/// An object of the shared folder never changes: its name is a SHA-256 of its content.
void expect_no_object(const fs::path& file, const WisdomStore& store) {
  constexpr std::size_t kHashLetters = 64;
  std::vector<fs::path> objects;
  for (const auto& entry : fs::directory_iterator(store.folder()))
    if (entry.path().stem().string().size() == kHashLetters) objects.push_back(entry.path());
  expect_no_input(file, objects);
}

/// The winners are judged for --device; without it for the device of an existing file, which this machine
/// need not have.
void pull(const WisdomShareArguments& given) {
  const WisdomStore store(given.store);
  const fs::path file = local_file(given);
  expect_no_object(file, store);
  const Provenance here = given.device.empty() && fs::exists(file)
                              ? Wisdom::load(file).provenance()
                              : provenance_of(facts_of_device(given.device.empty() ? "auto" : given.device));
  const Pulled pulled = pull_wisdom(store, file, here, {ops(), devices_beside({file})});
  for (const std::string& sentence : pulled.damaged) print_error(sentence);
  print_refused(pulled.refused);
  if (pulled.other_devices > 0)
    print("left {} of other devices than {}\n", counted(pulled.other_devices, "winner"), here.device);
  print("{}: {}, {}\n", file.string(), winners_and_steps(pulled.winners, pulled.steps),
        pulled.changed ? "written" : "nothing new");
}

void list(const WisdomShareArguments& given) {
  const DeviceFacts facts = facts_of_device(given.device.empty() ? "auto" : given.device);
  const WisdomInUse in_use = wisdom_in_use("", facts, fs::path(given.output) / facts.slug() / "wisdom.json");
  TextTable table({text_column("file"), {"winners"}, {"steps"}, {"in use"}, text_column("hash")});
  for (const WisdomFile& file : in_use.files) {
    if (file.hash.empty())
      table.add({file.path.string(), "", "", "", "missing"});
    else
      table.add({file.path.string(), fmt::format("{}", file.winners), fmt::format("{}", file.steps),
                 fmt::format("{}", file.used), file.hash.substr(0, 16)});
  }
  print(stdout, table);
  if (in_use.found()) print("\nin use on {}: wisdom {}\n", facts.name, in_use.str());
}

}  // namespace

void add_wisdom_share(CLI::App& wisdom) {
  const auto given = std::make_shared<WisdomShareArguments>();
  const auto add = [&](const char* name, const char* what, void (*run)(const WisdomShareArguments&)) {
    CLI::App* command = wisdom.add_subcommand(name, what);
    command->callback([given, run] { run(*given); });
    command->add_option("--device", given->device, "auto (first GPU, else host), cuda:N or host");
    command
        ->add_option("--out", given->output, "Folder of the results: OUT/<device>/wisdom.json is the default")
        ->capture_default_str();
    return command;
  };
  for (CLI::App* command :
       {add("push", "Adds the winners of a wisdom file to a folder that several machines share", push),
        add("pull", "Merges the winners of a shared folder into a wisdom file", pull)}) {
    command->add_option("FOLDER", given->store, "The shared folder, or its file:// URL")->required();
    command->add_option("--wisdom", given->wisdom, "The local file; pull makes it");
  }
  add("list", "Lists the wisdom files in use: those of WARPTUNE_WISDOM, else OUT/<device>/wisdom.json", list);
}

}  // namespace warptune
