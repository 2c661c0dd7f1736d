// A line of the protocol between the tuning program and its worker, as each side reads it.
#include "harness/tune/protocol.h"
#include "tests/fuzz/fuzz_target.h"

using namespace warptune;
using Json = nlohmann::json;

namespace {

/// A message that was read is written as one that reads as the same message.
template <class Read>
void read_write_read(const Json& json, Read read) {
  const Json written = to_json(read(json));
  fuzz::promise(to_json(read(written)) == written, "a message is the same after writing and reading");
}

void read_message(const Json& message) {
  const std::string type = message.at("type");
  if (type == "hello" || type == "facts" || type == "set_peaks") {
    facts_of(message).arch_number();
    read_write_read(message, facts_of);
  }
  if (type == "result") read_write_read(message, measurement_of);
  if (type == "finalists" && message.contains("times")) read_write_read(message, finalist_times_of);
  if (type == "finalists" && !message.contains("times")) read_write_read(message, finalists_job_of);
  if (message.contains("stages")) read_write_read(message["stages"], stage_times_of);
  if (type == "launch_floors") read_write_read(message, launch_floors_of);
  if (type == "step" && message.contains("ratio")) read_write_read(message, step_times_of);
  if (type == "step" && !message.contains("ratio")) read_write_read(message, step_job_of);
  if (type == "job") read_write_read(message, job_of);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    if (const auto message = message_of(fuzz::text_of(data, size))) read_message(*message);
  } catch (const ProtocolError&) {
    // the answer to everything that is not of the protocol
  }
  return 0;
}
