#include "cli/standard_streams.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <system_error>

namespace warptune {

void open_standard_streams() {
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);
  for (int file = 0; file <= 2; ++file)
    if (::fcntl(file, F_GETFD) < 0 && ::open("/dev/null", O_RDWR) < 0) std::_Exit(1);
}

bool stdout_is_unread() {
  pollfd out{STDOUT_FILENO, POLLOUT, 0};
  return ::poll(&out, 1, 0) > 0 && (out.revents & POLLERR) != 0;
}

void flush_stdout() {
  std::cout.flush();
  errno = 0;
  if (std::fflush(stdout) == 0 && !std::ferror(stdout) && std::cout.good()) return;
  const int error = stdout_is_unread() ? EPIPE : errno != 0 ? errno : EIO;
  throw std::system_error(error, std::generic_category(), "standard output cannot be written");
}

}  // namespace warptune
