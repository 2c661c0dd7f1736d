// warptune list ops|variants|parameters|arguments [OP]: prints what can be tuned. warptune devices: the
// devices of this machine and their facts.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>

#include "cli/commands.h"
#include "cli/options.h"
#include "harness/core/lookup.h"
#include "harness/core/print.h"
#include "harness/device/device.h"

namespace warptune {
namespace {

std::string dtypes_of(const std::vector<DType>& dtypes) {
  std::vector<std::string_view> names;
  for (const DType dtype : dtypes) names.push_back(name_of(dtype));
  return fmt::format("{}", fmt::join(names, ", "));
}

void print_op(const OpEntry& entry) {
  print("{}: {}\n  dtypes: {}\n", entry.op.name, entry.op.summary, dtypes_of(entry.op.dtypes));
  for (const Dim& dim : entry.op.dims) {
    std::string notes;
    if (!dim.labels.empty()) notes += fmt::format("; one of {}", fmt::join(dim.labels, ", "));
    if (const auto value = dim.fallback)
      notes += "; default " + label_at(dim.labels, *value, std::to_string(*value));
    if (dim.labels.empty() && dim.min != 1) notes += fmt::format("; at least {}", dim.min);
    print("  {:<12} {}{}\n", dim.name, dim.doc, notes);
  }
}

void print_variant(const Op& op, const Variant& v) {
  print("{:<32} {:<5} {}{}\n", op.name + "/" + v.name, v.backend == Backend::cuda ? "cuda" : "host", v.idea,
        v.dtypes.empty() ? "" : fmt::format(" (only {})", dtypes_of(v.dtypes)));
}

void print_variants(const OpEntry& entry) {
  for (const Variant& v : entry.variants) print_variant(entry.op, v);
}

std::string text_of(const Extents& e) {
  std::vector<std::string> texts = {e.x.text(), e.y.text(), e.z.text()};
  while (texts.size() > 1 && texts.back() == "1") texts.pop_back();
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

/// "launches linear/mma.cu grid [ceil_div(tokens, tile_m), 4] block [128], pdl pdl"; what is default is
/// omitted.
void print_launch(const Stage& stage) {
  const LaunchExpressions& g = stage.geometry;
  std::string text =
      fmt::format("  launches {} grid {} block {}", stage.file, text_of(g.grid), text_of(g.block));
  const std::pair<const char*, const Expression*> parts[] = {{"shared_bytes", &g.shared_bytes},
                                                             {"cluster", &g.cluster},
                                                             {"pdl", &g.pdl},
                                                             {"per_sm", &g.per_sm},
                                                             {"max_blocks", &g.max_blocks},
                                                             {"cooperative", &g.cooperative}};
  for (const auto& [name, value] : parts)
    if (value->text() != (std::string_view(name) == "cluster" ? "1" : "0"))
      text += fmt::format(", {} {}", name, value->text());
  if (!stage.condition.number()) text += fmt::format(", where {}", stage.condition.text());
  print("{}\n", text);
}

void print_parameters(const OpEntry& entry) {
  for (const Variant& v : entry.variants) {
    print_variant(entry.op, v);
    if (v.parameters.empty()) print("  no parameters\n");
    for (const Parameter& p : v.parameters) {
      std::vector<std::string> values;
      for (const std::int64_t value : p.values)
        values.push_back(label_at(p.labels, value, std::to_string(value)));
      print("  {:<18} {}{}{}{}\n", p.name, fmt::format("{}", fmt::join(values, " ")),
            p.doc.empty() ? "" : "  -- ", p.doc, p.in_step_only ? " (tuned in steps only)" : "");
    }
    for (const DerivedValue& d : v.derived)
      print("  {} = {}{}{}\n", d.name, d.value.text(), d.doc.empty() ? "" : "  -- ", d.doc);
    for (const Expression& constraint : v.constraints) print("  where {}\n", constraint.text());
    for (const Stage& stage : v.stages)
      if (!stage.library) print_launch(stage);
    const std::pair<const char*, const Expression*> limits[] = {
        {"shared bytes of a block", &v.limits.shared_bytes},
        {"registers of a thread", &v.limits.registers},
        {"threads of an SM", &v.limits.threads_per_sm}};
    for (const auto& [name, value] : limits)
      if (value->number() != 0) print("  needs {}: {}\n", name, value->text());
    if (v.workspace.number() != 0) print("  workspace {} bytes\n", v.workspace.text());
    if (v.peer_workspace.number() != 0)
      print("  workspace {} bytes, which all ranks map\n", v.peer_workspace.text());
  }
}

/// What a kernel from a file may name in its `arguments`.
void print_arguments(const OpEntry& entry) {
  print("{}\n", entry.op.name);
  for (const ArgsField& field : entry.op.fields) print("  {:<18} {}\n", field.name, field.type);
  for (const Dim& dim : entry.op.dims)
    if (!contains(entry.op.fields, dim.name, &ArgsField::name)) print("  {:<18} int, a dim\n", dim.name);
}

void print_device(const std::string& name) {
  const auto device = open_device(name);
  const DeviceFacts& f = device->facts();
  print("{}  {}  {}\n", name, f.name, f.arch);
  if (f.backend == Backend::cuda)
    print("  driver {}, toolkit {}, {} multiprocessors, {} MiB L2, {} KiB shared memory per block\n",
          f.driver, f.toolkit, f.sms, f.l2_bytes >> 20, f.shared_per_block >> 10);
  else
    print("  {} threads, {} MiB last-level cache\n", f.sms, f.l2_bytes >> 20);
  print("  {:.1f} GiB memory, {:.1f} GiB free\n", static_cast<double>(f.memory_bytes) / (1LL << 30),
        static_cast<double>(device->free_bytes()) / (1LL << 30));
}

}  // namespace

void add_list(CLI::App& app, int&) {
  auto* command = app.add_subcommand(
      "list", "Lists ops, their variants, the parameters of the variants, or the arguments of kernels");
  command->footer(
      "Examples:\n  warptune list ops\n  warptune list variants rms_norm\n"
      "  warptune list parameters linear/gemv_mma");
  struct Options {
    std::string what, op;
    KernelOption kernels;
  };
  const auto options = std::make_shared<Options>();
  command->add_option("WHAT", options->what, "ops, variants, parameters, or arguments of kernels from a file")
      ->required()
      ->check(CLI::IsMember({"ops", "variants", "parameters", "arguments"}));
  command->add_option("OP", options->op, "Only this op; or OP/VARIANT");
  options->kernels.add_to(*command);
  command->callback([options] {
    const auto print = options->what == "ops"          ? print_op
                       : options->what == "variants"   ? print_variants
                       : options->what == "parameters" ? print_parameters
                                                       : print_arguments;
    const OpTable& table = options->kernels.ops();
    if (options->op.empty()) {
      for (const OpEntry& entry : table) print(entry);
      return;
    }
    const auto slash = options->op.find('/');
    OpEntry entry = table.find(options->op.substr(0, slash));
    if (slash != std::string::npos) entry.variants = {entry.variant(options->op.substr(slash + 1))};
    print(entry);
  });
}

void add_devices(CLI::App& app, int&) {
  auto* command = app.add_subcommand("devices", "Lists the devices of this machine");
  command->footer("Example:\n  warptune devices");
  command->callback([] {
    for (int i = 0; i < cuda_device_count(); ++i) print_device(fmt::format("cuda:{}", i));
    print_device("host");
  });
}

}  // namespace warptune
