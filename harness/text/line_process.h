#pragma once
// A program that answers lines with lines, on its stdin and stdout.
#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

namespace warptune {

class LineProcess {
 public:
  /// Starts words[0], which is looked up in $PATH, without a shell. `name` begins the sentences about it.
  /// Throws InputError where it cannot be started.
  LineProcess(std::string name, std::vector<std::string> words, std::vector<std::string> environment);
  /// Kills the process and waits for its end.
  ~LineProcess();
  LineProcess(const LineProcess&) = delete;
  LineProcess& operator=(const LineProcess&) = delete;

  /// Sends a line. Returns the next line of the process, without its newline. Throws InputError if the
  /// process ends or does not answer in time.
  std::string exchange(std::string_view line, double seconds) {
    return converse(std::string(line) + '\n', seconds);
  }
  /// Returns the next line without sending one.
  std::string next_line(double seconds) { return converse("", seconds); }

 private:
  std::string converse(const std::string& sent, double seconds);
  bool read_answer();  // returns false at the end
  void read_errors();
  [[noreturn]] void fail_ended();

  std::string name_;
  pid_t pid_ = -1;
  int socket_ = -1, errors_ = -1;     // stdin and stdout of the process; its stderr
  std::string answer_, last_errors_;  // read so far
  std::size_t searched_ = 0;          // bytes of answer_ without a newline
};

}  // namespace warptune
