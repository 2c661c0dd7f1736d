#include "harness/tune/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <system_error>

#include "harness/core/brief.h"

namespace warptune {
namespace {
constexpr int kBar = 24;
constexpr double kRedrawSeconds = 0.1;

std::size_t width_of(std::FILE* stream) {
  winsize size{};
  return ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 20 ? size.ws_col - 1u : 100u;
}

/// A sweep ends where its stdout fails, as every command does; stderr decides nothing.
void put(std::FILE* stream, const std::string& text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), stream) == text.size();
  if ((std::fflush(stream) != 0 || !written) && stream != stderr)
    throw std::system_error(errno, std::generic_category(), "the progress of the sweep cannot be written");
}
}  // namespace

std::string clock_text(double seconds) {
  const auto s = static_cast<long long>(seconds + 0.5);
  return s < 3600 ? fmt::format("{:02}:{:02}", s / 60, s % 60)
                  : fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

Progress::Progress(std::FILE* stream, std::size_t total)
    : stream_(stream), terminal_(isatty(fileno(stream)) == 1), total_(total) {}

void Progress::step(const std::string& problem, double best_us) {
  const std::lock_guard lock(mutex_);
  ++done_;
  total_ = std::max(total_, done_);
  if (!terminal_) return;
  const auto now = std::chrono::steady_clock::now();
  if (std::chrono::duration<double>(now - drawn_).count() < kRedrawSeconds && done_ != total_) return;
  drawn_ = now;
  draw(problem, best_us);
}

void Progress::draw(const std::string& problem, double best_us) {
  const double elapsed = watch_.seconds();
  const double share = static_cast<double>(done_) / static_cast<double>(total_);
  const int filled = static_cast<int>(share * kBar);
  std::string line =
      fmt::format("[{}{}] {}/{} ETA {}  {}  {}", std::string(static_cast<std::size_t>(filled), '#'),
                  std::string(static_cast<std::size_t>(kBar - filled), '.'), done_, total_,
                  clock_text(elapsed / static_cast<double>(done_) * static_cast<double>(total_ - done_)),
                  std::isnan(best_us) ? std::string("no result yet") : fmt::format("best {:.2f} us", best_us),
                  printable(problem));
  if (const std::size_t width = width_of(stream_); line.size() > width) line.resize(width);
  put(stream_, "\r\033[K" + line);
}

void Progress::clear() {
  if (terminal_) put(stream_, "\r\033[K");
}

void Progress::finish(const std::string& line) {
  const std::lock_guard lock(mutex_);
  clear();
  put(stream_, fmt::format("[{}/{}] {}\n", done_, total_, printable(line)));
}

}  // namespace warptune
