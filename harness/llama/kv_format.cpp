#include "harness/llama/kv_format.h"

#include <fmt/format.h>

namespace warptune {

std::string KvFormat::suffix() const {
  std::string text;
  if (quantised) text += fmt::format("+kv={}", name_of(*quantised));
  if (page_size != 0) text += fmt::format("+page={}", page_size);
  if (window != 0) text += fmt::format("+window={}", window);
  return text;
}

}  // namespace warptune
