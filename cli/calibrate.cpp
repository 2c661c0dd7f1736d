// warptune calibrate: measures the peaks of a device and stores them with its results.
#include "harness/measure/calibrate.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <memory>

#include "cli/commands.h"
#include "cli/options.h"
#include "harness/core/error.h"
#include "harness/core/print.h"
#include "harness/tune/device_file.h"
#include "harness/tune/device_lock.h"

namespace warptune {
namespace {

void print_calibration(const Calibration& c) {
  const DeviceFacts& f = c.facts;
  const auto row = [](const char* what, double value, const char* unit) {
    if (value > 0) print("  {:<34}{:>12.2f} {}\n", what, value, unit);
  };
  print("{} ({})\n", f.name, f.arch);
  row("read", f.read_gb_per_s, "GB/s");
  row("write", c.write_gb_per_s, "GB/s");
  row("copy (read and written)", f.copy_gb_per_s, "GB/s");
  row("read from the L2", f.l2_read_gb_per_s, "GB/s");
  row("matrix multiply (tensor cores), 16-bit", f.matrix_tflop_per_s, "TFLOP/s");
  row("arithmetic, fp32", f.vector_tflop_per_s, "TFLOP/s");
  row("launch of an empty kernel", c.launch_us, "us");
  row("the same as a graph node", c.graph_node_us, "us");
  row("the same with dependent launch", c.graph_node_pdl_us, "us");
  if (c.rotation.empty()) return;
  print("\n  {:>12}  {:>8}  {:>12}\n", "rotation MiB", "of L2", "us per chunk");
  for (const RotationPoint& p : c.rotation)
    print("  {:>12.1f}  {:>8.2f}  {:>12.3f}{}\n", p.bytes / (1 << 20),
          p.bytes / static_cast<double>(f.l2_bytes), p.us,
          p.bytes == c.cold_bytes ? "  constant from here on" : "");
}

}  // namespace

void add_calibrate(CLI::App& app, int&) {
  auto* command =
      app.add_subcommand("calibrate", "Measures peak rates, launch floors and the L2 of a device");
  command->footer(
      "Writes OUT/<device>/device.json, which `tune` uses with the same driver and toolkit.\n"
      "Example:\n  warptune calibrate --device cuda:0 --out results");
  struct Given {
    std::string device = "auto", output = "results";
  };
  const auto given = std::make_shared<Given>();
  add_device(*command, given->device);
  add_as(*command, given->device);
  command->add_option("--out", given->output, "Folder of the results")->capture_default_str();
  command->callback([given] {
    const auto device = open_device(given->device);
    const DeviceLock lock(device->facts().id);
    const auto file = std::filesystem::path(given->output) / device->facts().slug() / "device.json";
    expect_device_file(file);
    std::error_code error;
    std::filesystem::create_directories(file.parent_path(), error);
    if (error) throw InputError("'{}': {}", file.parent_path().string(), error.message());
    // Fails before measuring, which takes seconds. Appending nothing leaves an existing file as it is.
    if (!std::ofstream(file, std::ios::app)) throw InputError("'{}' cannot be written", file.string());
    const Calibration calibration = calibrate(*device);
    save_calibration(file, calibration);
    print_calibration(calibration);
    print("\n{}\n", file.string());
  });
}

}  // namespace warptune
