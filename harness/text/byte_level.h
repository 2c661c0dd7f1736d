#pragma once
// The alphabet of byte-level BPE (GPT-2): each byte is one printable character, so that tokens of any bytes
// are text in tokenizer.json.
#include <string>
#include <string_view>

namespace warptune {

/// " a" becomes "Ġa".
std::string to_byte_characters(std::string_view bytes);
/// The inverse. A token with a character outside the alphabet stays as it is.
std::string from_byte_characters(std::string_view token);

}  // namespace warptune
