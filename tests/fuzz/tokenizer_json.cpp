// The tokenizer.json of a checkpoint, and texts through the tokenizer that it describes.
#include "harness/text/tokenizer_json.h"

#include "harness/text/unicode.h"
#include "tests/fuzz/fuzz_target.h"

using namespace warptune;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::accept_or_refuse([&] {
    const auto tokenizer = parse_tokenizer_json(fuzz::text_of(data, size), "tokenizer.json");
    for (const char* text :
         {"a", "ab  abab\n\t 12345", "\xc3\xa9\xe2\x96\x81 <s> \xf0\x9f\x98\x80\xe2\x80\x83x"})
      for (const SpecialTokens special : {SpecialTokens::add, SpecialTokens::omit}) {
        const std::string decoded = decode(*tokenizer, tokenizer->encode(text, special));
        fuzz::promise(valid_utf8_bytes(decoded) == decoded.size(), "decoded text is UTF-8");
      }
  });
  return 0;
}
