#include "harness/llama/prompts.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <sstream>
#include <string>

#include "harness/core/brief.h"
#include "harness/core/error.h"
#include "harness/core/input_file.h"
#include "harness/core/random.h"

namespace warptune {

std::vector<std::vector<int>> read_prompts(const std::filesystem::path& file) {
  std::istringstream in(
      read_input(file, fmt::format("the prompt file '{}'", file.string()), kMaxPromptBytes));
  std::vector<std::vector<int>> prompts;
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    std::vector<int> prompt;
    const char *at = line.data(), *const end = at + line.size();
    while (true) {
      at = std::find_if_not(at, end, [](char c) { return c == ' ' || c == '\t' || c == ',' || c == '\r'; });
      if (at == end) break;
      int id = 0;
      const auto [next, error] = std::from_chars(at, end, id);
      if (error != std::errc() || id < 0)
        throw InputError("{}:{}: '{}' is not a list of token ids", file.string(), number, brief(line));
      prompt.push_back(id);
      at = next;
    }
    if (prompt.empty())
      throw InputError("{}:{}: the line is empty; a prompt needs at least one token", file.string(), number);
    prompts.push_back(std::move(prompt));
  }
  if (prompts.empty()) throw InputError("{}: there is no prompt in it", file.string());
  return prompts;
}

std::vector<std::vector<int>> random_prompts(int batch, std::span<const int> lengths, int vocab,
                                             std::uint64_t seed) {
  std::vector<std::vector<int>> prompts;
  for (int b = 0; b < batch; ++b) {
    std::vector<int> prompt;
    const int length = lengths[static_cast<std::size_t>(b) % lengths.size()];
    for (int t = 0; t < length; ++t) {
      const auto index = static_cast<std::uint64_t>(b) << 32 | static_cast<std::uint64_t>(t);
      prompt.push_back(static_cast<int>(random_bits(seed, index) % static_cast<std::uint32_t>(vocab)));
    }
    prompts.push_back(std::move(prompt));
  }
  return prompts;
}

}  // namespace warptune
