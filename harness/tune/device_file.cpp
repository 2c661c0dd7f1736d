#include "tune/device_file.h"

#include <fmt/format.h>

#include <fstream>
#include <stdexcept>

#include "tune/protocol.h"

namespace warptune {

std::optional<DeviceFacts> load_device_file(const std::filesystem::path& path, const DeviceFacts& device) {
  std::ifstream in(path);
  const auto json = nlohmann::json::parse(in, nullptr, false);
  if (!in || json.is_discarded()) return std::nullopt;
  try {
    DeviceFacts facts = facts_of(json);
    const bool same = facts.name == device.name && facts.arch == device.arch && facts.sms == device.sms &&
                      facts.driver == device.driver && facts.toolkit == device.toolkit;
    return same && facts.read_gb_per_s > 0 ? std::optional(facts) : std::nullopt;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

void save_device_file(const std::filesystem::path& path, const DeviceFacts& facts) {
  std::ofstream out(path);
  out << to_json(facts).dump(1) << '\n';
  if (!out.flush()) throw std::runtime_error(fmt::format("'{}' cannot be written", path.string()));
}

}  // namespace warptune
