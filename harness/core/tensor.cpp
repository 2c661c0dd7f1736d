#include "harness/core/tensor.h"

#include <fmt/format.h>

#include <stdexcept>

namespace warptune {

Values Inputs::operator[](std::string_view name) const {
  for (std::size_t i = 0; i < specs_.size(); ++i)
    if (specs_[i].name == name) return Values(specs_[i], tensor_seed(seed_, i));
  throw std::out_of_range(fmt::format("no tensor '{}'", name));
}

void Expected::put(std::string_view tensor, std::int64_t first, std::vector<double> values,
                   std::vector<double> also) {
  runs_.push_back({std::string(tensor), first, std::move(values), std::move(also)});
}

}  // namespace warptune
