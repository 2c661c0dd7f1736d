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

bool is_plain_step(const std::string& plan_set) { return plan_set.find('=') == std::string::npos; }

}  // namespace warptune
