#include "harness/tune/profile.h"

#include <unistd.h>

#include <cstdlib>
#include <map>

#include "harness/core/error.h"
#include "harness/core/input_file.h"
#include "harness/core/space.h"
#include "harness/core/text.h"
#include "harness/device/compile.h"
#include "harness/device/nvtx.h"
#include "harness/device/profiler_range.h"
#include "harness/results/output_file.h"
#include "harness/select/tuned_plans.h"
#include "harness/verify/oracle.h"

namespace warptune {
namespace fs = std::filesystem;

std::string ProfileTarget::name() const { return problem.op + "/" + variant + "/" + problem.key(); }

void run_profiled(const OpTable& ops, const ProfileTarget& target) {
  const auto device = open_device(target.device);
  const OpEntry& entry = ops.find(target.problem.op);
  const Variant& variant = entry.variant(target.variant);
  if (why_not_here(variant, target.problem, device->facts()))
    throw InputError("{} does not run on {}", target.name(), device->facts().name);
  const Space space(variant, target.problem, device->facts());
  if (const std::string why = space.why_excluded(target.config); !why.empty()) throw InputError(why);
  const Oracle oracle(*device, entry.op, target.problem, 1);
  TensorSet set(*device, oracle.specs());
  set.fill(oracle.specs(), oracle.seed());
  const auto plan = device->prepare(variant, target.problem, target.config);
  Buffer workspace;
  if (const auto bytes = static_cast<std::size_t>(plan->workspace_bytes())) {
    workspace = device->allocate(bytes);
    device->set_bytes(workspace.data(), 0, bytes, device->stream());
  }
  const Args args = entry.op.bind(target.problem, set.addresses(), workspace.data());
  set.reset_outputs(oracle.specs(), oracle.seed());
  plan->launch(args.data(), device->stream());
  device->synchronize();
  if (const Verdict verdict = oracle.compare(set); !verdict.ok)
    throw CheckError("{} {}: {}", target.name(), target.config.str(), verdict.detail);
  set.reset_outputs(oracle.specs(), oracle.seed());
  {
    const ProfilerRange recorded(*device);
    const NvtxRange range(NvtxKind::op, target.problem.op, [&] { return target.name(); });
    plan->launch(args.data(), device->stream());
    device->synchronize();
  }
}

std::vector<std::string> inside_command(const fs::path& program, const ProfileTarget& target) {
  std::vector<std::string> command = {
      program.string(),          "profile", target.problem.op + "/" + target.variant,  "--problem",
      target.problem.dims.str(), "--dtype", std::string(name_of(target.problem.dtype))};
  if (!target.config.empty()) command.insert(command.end(), {"--config", target.config.str()});
  for (const fs::path& file : target.kernel_files)
    command.insert(command.end(), {"--kernels", file.string()});
  command.insert(command.end(), {"--device", target.device, "--inside"});
  return command;
}

namespace {

std::vector<std::string> joined(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace

std::vector<std::string> profiler_command(const std::string& tool, const fs::path& program,
                                          const ProfileTarget& target, const fs::path& sources,
                                          const fs::path& report) {
  const auto inside = inside_command(program, target);
  if (tool == "nsys")
    return joined({"nsys", "profile", "--trace=cuda,nvtx", "--capture-range=cudaProfilerApi",
                   "--capture-range-end=stop", "--force-overwrite=true", "-o", report.string()},
                  inside);
  return joined({"ncu", "--profile-from-start", "off", "--clock-control", "none", "--set", "full", "--nvtx",
                 "--kernel-name-base", "demangled", "--import-source", "yes", "--source-folders",
                 sources.string(), "-f", "-o", report.string()},
                inside);
}

void write_sources(const OpTable& ops, const ProfileTarget& target, const fs::path& folder,
                   const std::vector<fs::path>& inputs, bool force) {
  const KernelSources sources;
  std::map<std::string, std::string> texts;
  for (const Stage& stage : ops.find(target.problem.op).variant(target.variant).stages)
    if (!stage.library && !stage.custom)  // the line tables of a user's file hold its path
      for (auto& [name, text] : sources.closure(stage.file)) texts[name] = text;
  std::vector<std::pair<OutputFile, const std::string*>> files;
  for (const auto& [name, text] : texts)
    files.emplace_back(
        OutputFile(path_below(folder, name),
                   kind_that_begins("a CUDA source", {text.substr(0, text.find('\n'))}), inputs, force),
        &text);
  for (const auto& [file, text] : files) file.write(*text);
}

std::string shell_text(const std::vector<std::string>& command) {
  static constexpr const char* kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=,:+";
  std::string text;
  for (const std::string& word : command) {
    if (!text.empty()) text += ' ';
    if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) {
      text += word;
      continue;
    }
    text += '\'';
    for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
    text += '\'';
  }
  return text;
}

std::optional<fs::path> find_tool(const std::string& name) {
  std::vector<fs::path> folders;
  if (const char* path = std::getenv("PATH"))
    for (const std::string& folder : split(path, ':')) folders.emplace_back(folder.empty() ? "." : folder);
  if (const char* home = std::getenv("CUDA_HOME")) folders.push_back(fs::path(home) / "bin");
  folders.push_back("/usr/local/cuda/bin");
  for (const fs::path& folder : folders) {
    const fs::path file = folder / name;
    std::error_code error;
    if (fs::is_regular_file(file, error) && ::access(file.c_str(), X_OK) == 0) return file;
  }
  return std::nullopt;
}

}  // namespace warptune
