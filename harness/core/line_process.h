#pragma once
// A program that answers lines with lines, on its stdin and stdout.
#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

namespace warptune {

/// The texts as exec() takes them: pointers, then null.
std::vector<char*> pointers_to(std::vector<std::string>& texts);

class LineProcess {
 public:
  struct Answer {
    enum class Kind { line, late, ended } kind = Kind::line;
    std::string text;        // without its newline; else a predicate: "ended with exit code 1"
    bool is_killed = false;  // by a SIGKILL of someone else
  };

  /// Starts words[0], which is looked up in $PATH, without a shell. Without an `environment` it has that of
  /// this process. If it cannot be started, it has ended.
  explicit LineProcess(std::vector<std::string> words, std::vector<std::string> environment = {});
  /// Kills the process and waits for its end.
  ~LineProcess();
  LineProcess(const LineProcess&) = delete;
  LineProcess& operator=(const LineProcess&) = delete;

  bool is_started() const { return why_not_started_.empty(); }
  /// Sends a line, without its newline; next_line() sends what the process has not read yet.
  void send(std::string_view line);
  /// The next line of the process.
  Answer next_line(double seconds);
  /// The end of what the process has printed to its stderr.
  const std::string& errors() const { return errors_; }

 private:
  void send_some();
  bool read_answer();  // returns false at the end
  void read_errors();
  Answer ended();

  pid_t pid_ = -1;
  int socket_ = -1, error_pipe_ = -1;  // stdin and stdout of the process; its stderr
  std::string unsent_, answer_, errors_;
  std::size_t searched_ = 0;  // bytes of answer_ without a newline
  std::string why_not_started_;
};

}  // namespace warptune
