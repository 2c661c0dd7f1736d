#include "harness/llama/kv_format.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/core/assignment.h"
#include "harness/core/brief.h"
#include "harness/core/error.h"

namespace warptune {

std::string KvFormat::suffix() const {
  std::string text;
  if (quantized) text += fmt::format("+kv={}", name_of(*quantized));
  if (page_size != 0) text += fmt::format("+page={}", page_size);
  if (window != 0) text += fmt::format("+window={}", window);
  if (k_layout == KLayout::dsx) text += "+k_layout=dsx";
  return text;
}

KvFormat parse_kv_suffix(std::string_view text) {
  KvFormat format;
  const std::string given(text.substr(std::min(text.find_first_not_of('+'), text.size())));
  std::string pairs = given;
  std::ranges::replace(pairs, '+', ',');
  for (const auto& [name, value] : parse_pairs(pairs)) {
    if (name == "kv" && value == "int8") format.quantized = DType::int8;
    if (name == "kv" && value == "fp8") format.quantized = DType::fp8;
    if (name == "page") format.page_size = static_cast<int>(whole_number(value, "'page' of a KV cache"));
    if (name == "window") format.window = static_cast<int>(whole_number(value, "'window' of a KV cache"));
    if (name == "k_layout" && value == "dsx") format.k_layout = KLayout::dsx;
  }
  if (format.suffix() != (given.empty() ? "" : "+" + given))
    throw InputError("'{}' is no format of a KV cache; one is '+kv=int8+page=16'", brief(text));
  return format;
}

bool is_plain_step(const std::string& plan_set) { return plan_set.find('=') == std::string::npos; }

}  // namespace warptune
