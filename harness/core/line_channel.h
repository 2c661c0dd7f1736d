#pragma once
// Lines on file descriptors: the side of a process that LineProcess starts.
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace warptune {

class LineChannel {
 public:
  LineChannel(int in, int out) : in_(in), out_(out) {}

  /// The next line; nothing at the end of the input.
  std::optional<std::string> read();
  /// Writes a line. Ends this process where the other side is gone.
  void write(const nlohmann::json& json);

 private:
  int in_, out_;
  std::string text_;
};

/// Returns a descriptor of stdout for answers. What libraries print to stdout goes to stderr from then on, so
/// that it does not mix with them.
int answers_only_on_stdout();

}  // namespace warptune
