#include "harness/llama/kv_format.h"

#include <fmt/format.h>

namespace warptune {

std::string KvFormat::suffix() const {
  std::string text;
  if (quantized) text += fmt::format("+kv={}", name_of(*quantized));
  if (page_size != 0) text += fmt::format("+page={}", page_size);
  if (window != 0) text += fmt::format("+window={}", window);
  return text;
}

bool has_plain_kv(const std::string& plan_set) {
  return plan_set.find("+kv=") == std::string::npos && plan_set.find("+page=") == std::string::npos &&
         plan_set.find("+window=") == std::string::npos;
}

}  // namespace warptune
