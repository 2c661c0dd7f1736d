#pragma once
#include <string>

namespace warptune {

/// Name and version of the vendor's library that is loaded; empty where the program was built without one.
std::string vendor_library();

}  // namespace warptune
