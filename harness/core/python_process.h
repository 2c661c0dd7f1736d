#pragma once
// A module of the Python package as a process that answers JSON lines with JSON lines.
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/core/brief.h"
#include "harness/core/error.h"
#include "harness/core/line_process.h"

namespace warptune {

class PythonProcess {
 public:
  /// Starts `python3 -m MODULE ARGUMENTS...`. Python is $WARPTUNE_PYTHON, else that of the virtual
  /// environment of `scripts/setup.sh --python`, else python3 of $PATH. An answer may take `seconds`, and
  /// longer for long requests.
  PythonProcess(const std::string& module, const std::vector<std::string>& arguments, double seconds);

  /// The value `key` of the next line. Throws InputError, also where the process ends, is late or answers
  /// {"error": SENTENCE}.
  template <class T>
  T answer(const char* key) {
    return value<T>(next_line(seconds_), key);
  }
  /// The same after a request.
  template <class T>
  T ask(const nlohmann::json& request, const char* key) {
    return value<T>(reply_to(request), key);
  }

 private:
  std::string next_line(double seconds);
  std::string reply_to(const nlohmann::json& request);
  nlohmann::json without_error(const std::string& line) const;
  template <class T>
  T value(const std::string& line, const char* key) const {
    const nlohmann::json json = without_error(line);
    try {
      return json.at(key).get<T>();
    } catch (const nlohmann::json::exception&) {
      throw InputError("'" + name_ + "' answered '" + brief(line) + "', which has no valid '" + key + "'");
    }
  }

  std::string name_;
  double seconds_;
  std::unique_ptr<LineProcess> process_;
};

/// Replaces this process by `python3 -m MODULE ARGUMENTS...`. Throws InputError where Python cannot be
/// started.
[[noreturn]] void become_python(const std::string& module, const std::vector<std::string>& arguments);

}  // namespace warptune
