// The host variant of all_gather.
#include <cstring>

#include "kernels/all_gather/args.h"
#include "variants/helpers/host_exchange.h"
#include "variants/ops.h"

namespace warptune {

std::vector<Variant> all_gather_host() {
  return host_ranks_variant("tokens * columns * dtype_bytes", [](const Problem& p) {
    return [p](const void* raw, const Peers& peers) {
      const auto& args = *static_cast<const AllGatherArgs*>(raw);
      const std::size_t row = static_cast<std::size_t>(p["columns"]) * size_of(p.dtype);
      const auto tokens = static_cast<std::size_t>(args.tokens);
      const auto all = host_exchange(peers, args.x, tokens * row);
      auto* to = static_cast<std::byte*>(args.y);
      for (std::size_t token = 0; token < tokens; ++token)
        for (const std::byte* x : all) {
          std::memcpy(to, x + token * row, row);
          to += row;
        }
    };
  });
}

}  // namespace warptune
