#include "harness/llama/kv_format.h"

#include <fmt/format.h>

namespace warptune {

std::string KvFormat::suffix() const {
  std::string text;
  if (quantized) text += fmt::format("+kv={}", name_of(*quantized));
  if (page_size != 0) text += fmt::format("+page={}", page_size);
  if (window != 0) text += fmt::format("+window={}", window);
  if (k_layout == KLayout::dsx) text += "+k_layout=dsx";
  return text;
}

bool has_plain_kv(const std::string& plan_set) {
  for (const char* part : {"+kv=", "+page=", "+window=", "+k_layout="})
    if (plan_set.find(part) != std::string::npos) return false;
  return true;
}

}  // namespace warptune
