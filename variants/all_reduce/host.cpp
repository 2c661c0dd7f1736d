// The host variant of all_reduce.
#include "kernels/all_reduce/args.h"
#include "variants/helpers/host_exchange.h"
#include "variants/ops.h"

namespace warptune {

std::vector<Variant> all_reduce_host() {
  return host_ranks_variant("bytes", [](const Problem& p) {
    return [p](const void* raw, const Peers& peers) {
      const auto& args = *static_cast<const AllReduceArgs*>(raw);
      const auto bytes = static_cast<std::size_t>(p["bytes"]);
      const auto all = host_exchange(peers, args.x, bytes);
      with_float_dtype(p.dtype, [&]<class T>() {
        for (std::size_t i = 0; i < bytes / sizeof(T); ++i) {
          float sum = 0;
          for (const std::byte* x : all) sum += static_cast<float>(reinterpret_cast<const T*>(x)[i]);
          static_cast<T*>(args.y)[i] = static_cast<T>(sum);
        }
      });
    };
  });
}

}  // namespace warptune
