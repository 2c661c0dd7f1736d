#pragma once
// Which names a sweep may have: its files bear them, and some names mean something else.
#include <string>

namespace warptune {

/// What is wrong with a name; empty where nothing is.
std::string fault_of_sweep_name(const std::string& name);

}  // namespace warptune
