// warptune devices: the devices of this machine and their facts.
#include <fmt/format.h>

#include "cli/commands.h"
#include "harness/core/print.h"
#include "harness/device/device.h"

namespace warptune {
namespace {

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

void add_devices(CLI::App& app, int&) {
  auto* command = app.add_subcommand("devices", "Lists the devices of this machine");
  command->footer("Example:\n  warptune devices");
  command->callback([] {
    for (int i = 0; i < cuda_device_count(); ++i) print_device(fmt::format("cuda:{}", i));
    print_device("host");
  });
}

}  // namespace warptune
