#include "harness/tune/device_file.h"

#include <fstream>

#include "harness/results/durable_file.h"
#include "harness/tune/protocol.h"

namespace warptune {

std::optional<DeviceFacts> read_device_file(const std::filesystem::path& path) {
  std::ifstream in(path);
  const auto json = nlohmann::json::parse(in, nullptr, false);
  if (!in || json.is_discarded()) return std::nullopt;
  try {
    return facts_of(json);
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

std::optional<DeviceFacts> load_device_file(const std::filesystem::path& path, const DeviceFacts& device) {
  const auto facts = read_device_file(path);
  if (!facts || facts->read_gb_per_s <= 0) return std::nullopt;
  const bool same = facts->name == device.name && facts->arch == device.arch && facts->sms == device.sms &&
                    facts->driver == device.driver && facts->toolkit == device.toolkit;
  return same ? facts : std::nullopt;
}

void save_device_file(const std::filesystem::path& path, const DeviceFacts& facts) {
  nlohmann::json json = to_json(facts);
  std::ifstream in(path);
  const auto stored = in ? nlohmann::json::parse(in, nullptr, false) : nlohmann::json();
  if (stored.contains("calibration") && load_device_file(path, facts))
    json["calibration"] = stored["calibration"];
  replace_file(path, json.dump(1) + '\n');
}

void save_calibration(const std::filesystem::path& path, const Calibration& c) {
  nlohmann::json json = to_json(c.facts);
  nlohmann::json rotation = nlohmann::json::array();
  for (const RotationPoint& point : c.rotation)
    rotation.push_back({{"bytes", point.bytes}, {"us", point.us}});
  json["calibration"] = {{"write_gb_per_s", c.write_gb_per_s}, {"launch_us", c.launch_us},
                         {"graph_node_us", c.graph_node_us},   {"graph_node_pdl_us", c.graph_node_pdl_us},
                         {"cold_bytes", c.cold_bytes},         {"rotation", rotation}};
  replace_file(path, json.dump(1) + '\n');
}

}  // namespace warptune
