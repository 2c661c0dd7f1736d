#include "harness/tune/device_file.h"

#include "harness/core/error.h"
#include "harness/core/input_file.h"
#include "harness/core/json.h"
#include "harness/results/durable_file.h"
#include "harness/tune/protocol.h"

namespace warptune {

namespace {

/// A discarded value where there is no such file or it is not JSON.
nlohmann::json stored_json(const std::filesystem::path& path) try {
  return parse_json(read_input(path, "device.json", kMaxConfigBytes), "device.json");
} catch (const InputError&) {
  return nlohmann::json(nlohmann::json::value_t::discarded);
}

/// Throws InputError where a file of another kind has the name.
void save(const std::filesystem::path& path, const nlohmann::json& json) {
  expect_device_file(path);
  replace_file(path, json.dump(1) + '\n');
}

}  // namespace

void expect_device_file(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error) || std::filesystem::is_empty(path, error)) return;
  if (const auto stored = stored_json(path); !stored.is_object() || !stored.contains("name"))
    throw InputError("'{}' does not hold the facts of a device; move it away, or choose another --out",
                     path.string());
}

std::optional<DeviceFacts> read_device_file(const std::filesystem::path& path) try {
  return facts_of(stored_json(path));
} catch (const std::exception&) {
  return std::nullopt;
}

std::optional<DeviceFacts> load_device_file(const std::filesystem::path& path, const DeviceFacts& device) {
  const auto facts = read_device_file(path);
  if (!facts || facts->read_gb_per_s <= 0) return std::nullopt;
  const bool same = facts->name == device.name && facts->arch == device.arch && facts->sms == device.sms &&
                    facts->driver == device.driver && facts->toolkit == device.toolkit;
  return same ? facts : std::nullopt;
}

std::optional<DeviceFacts> load_card_file(const std::filesystem::path& path, const DeviceFacts& card) {
  const auto facts = load_device_file(path, card);
  return facts && facts->id == card.id ? facts : std::nullopt;
}

void save_device_file(const std::filesystem::path& path, const DeviceFacts& facts) {
  nlohmann::json json = to_json(facts);
  const auto stored = stored_json(path);
  if (stored.contains("calibration") && load_device_file(path, facts))
    json["calibration"] = stored["calibration"];
  save(path, json);
}

void save_calibration(const std::filesystem::path& path, const Calibration& c) {
  nlohmann::json json = to_json(c.facts);
  nlohmann::json rotation = nlohmann::json::array();
  for (const RotationPoint& point : c.rotation)
    rotation.push_back({{"bytes", point.bytes}, {"us", point.us}});
  json["calibration"] = {{"write_gb_per_s", c.write_gb_per_s}, {"launch_us", c.launch_us},
                         {"graph_node_us", c.graph_node_us},   {"graph_node_pdl_us", c.graph_node_pdl_us},
                         {"cold_bytes", c.cold_bytes},         {"rotation", rotation}};
  save(path, json);
}

}  // namespace warptune
