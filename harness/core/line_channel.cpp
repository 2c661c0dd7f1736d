#include "harness/core/line_channel.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

namespace warptune {

std::optional<std::string> LineChannel::read() {
  for (std::size_t searched = 0;;) {
    if (const auto end = text_.find('\n', searched); end != std::string::npos) {
      std::string line = text_.substr(0, end);
      text_.erase(0, end + 1);
      return line;
    }
    searched = text_.size();
    char buffer[1 << 16];
    const ssize_t n = ::read(in_, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return std::nullopt;
    text_.append(buffer, static_cast<std::size_t>(n));
  }
}

void LineChannel::write(const nlohmann::json& json) {
  // Messages of libraries may not be UTF-8.
  const std::string line = json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
  for (std::size_t at = 0; at < line.size();) {
    const ssize_t n = ::write(out_, line.data() + at, line.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) std::_Exit(1);  // the parent is gone
    at += static_cast<std::size_t>(n);
  }
}

int answers_only_on_stdout() {
  const int answers = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
  ::dup2(STDERR_FILENO, STDOUT_FILENO);
  return answers;
}

}  // namespace warptune
