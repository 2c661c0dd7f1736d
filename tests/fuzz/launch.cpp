// warptune.json of an exported folder, or a cubin, read by include/warptune/launch.h: each plan is launched
// for its largest and its smallest problem by a driver without a GPU, which ends the program at a launch that
// no device could make. The harness is not linked: its namespace has other types of the same names.
#include "warptune/launch.h"

#include <cstdint>
#include <limits>

#include "tests/fuzz/fuzz_target.h"

namespace {

using namespace warptune;

/// Runs the code under test. It may refuse the input with a sentence of one line.
template <class Body>
void accept_or_refuse(Body&& body) {
  try {
    body();
  } catch (const Error& e) {
    fuzz::promise(*e.what() != '\0' && detail::is_printable(e.what()), "a sentence that can be printed");
  }
}

/// Sets each member that holds a pointer or is `required`.
void set_members(Args& args, std::int64_t number) {
  const auto& fields = args.layout().fields();
  for (std::size_t i = 0; i < fields.size(); ++i)
    if (fields[i].type == Field::Type::pointer)
      args.set_at(i, std::uintptr_t{4096});
    else if (fields[i].is_required)
      args.set_at(i, number);
}

void launch(Folder& folder, const Problem& problem) {
  const Plan plan = folder.load(problem);
  const Workspace workspace(plan.workspace_bytes());
  Args args = plan.args();
  const auto* bytes = static_cast<const unsigned char*>(args.data());
  unsigned sum = 0;
  for (std::size_t i = 0; i < args.layout().bytes(); ++i) sum += bytes[i];
  fuzz::promise(sum <= 255 * args.layout().bytes(), "args of the size that the plan says");
  for (const std::int64_t number :
       {std::int64_t{128}, std::int64_t{-1}, std::numeric_limits<std::int64_t>::max()})
    accept_or_refuse([&] {
      set_members(args, number);
      plan.launch(args, nullptr);
    });
}

/// The problem at the lower corner of an entry.
Problem smallest(const Entry& entry) {
  Problem problem{entry.op, entry.dtype, entry.dims};
  for (const auto& [name, range] : entry.ranges) problem.dims[name] = std::to_string(range.from);
  return problem;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  accept_or_refuse([&] { detail::expect_complete(std::string(fuzz::text_of(data, size))); });
  const auto path = fuzz::input_file("warptune.json", fuzz::text_of(data, size)).parent_path();
  std::filesystem::create_directories(path / "cubins");
  if (const auto cubin = path / "cubins" / "1.cubin"; !exists(cubin)) std::ofstream(cubin) << "machine code";
  accept_or_refuse([&] {
    Folder folder(path.string());
    for (const Entry& entry : folder.entries()) {
      accept_or_refuse([&] { launch(folder, Problem::parse(entry.problem)); });
      accept_or_refuse([&] { launch(folder, smallest(entry)); });
    }
  });
  return 0;
}
