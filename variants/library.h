#pragma once
#include <string>
#include <string_view>

namespace warptune {

/// Name and version of the vendor's library that a variant of this name calls; empty where the program was
/// built without it.
std::string vendor_library(std::string_view variant);

}  // namespace warptune
