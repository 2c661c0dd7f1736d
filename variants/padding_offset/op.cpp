// The op padding_offset.
#include "kernels/padding_offset/args.h"
#include "variants/helpers/lengths.h"
#include "variants/ops.h"

namespace warptune {

Op padding_offset() {
  return {
      .name = "padding_offset",
      .summary = "prefix sums of lengths, and how far each packed token is from its padded place",
      .dims = {work_dim({"batch", "sequences"}), {"max_q_len", "padded length"}},
      .dtypes = {DType::int32},
      .check = [](const Problem& p) { check_row_count(p, true); },
      .tensors =
          [](const Problem& p, std::uint64_t seed) {
            return std::vector<TensorSpec>{
                {.name = "lengths",
                 .dtype = DType::int32,
                 .shape = {p["batch"]},
                 .cache = CacheState::hot,
                 .values = uneven_lengths(p["batch"], p["max_q_len"], seed)},
                {.name = "cu_seqlens",
                 .dtype = DType::int32,
                 .shape = {p["batch"] + 1},
                 .role = Role::output,
                 .cache = CacheState::hot},
                {.name = "padding_offset",
                 .dtype = DType::int32,
                 .shape = {p["batch"] * p["max_q_len"]},
                 .role = Role::output,
                 .cache = CacheState::hot,
                 .sparse = true},
            };
          },
      .bind =
          [](const Problem& p, std::span<void* const> t, void*) {
            return Args(PaddingOffsetArgs{.lengths = static_cast<const int*>(t[0]),
                                          .cu_seqlens = static_cast<int*>(t[1]),
                                          .padding_offset = static_cast<int*>(t[2]),
                                          .batch = static_cast<int>(p["batch"]),
                                          .max_q_len = static_cast<int>(p["max_q_len"])});
          },
      .fields = {field("lengths", &PaddingOffsetArgs::lengths),
                 field("cu_seqlens", &PaddingOffsetArgs::cu_seqlens),
                 field("padding_offset", &PaddingOffsetArgs::padding_offset),
                 field("batch", &PaddingOffsetArgs::batch),
                 field("max_q_len", &PaddingOffsetArgs::max_q_len)},
      .cost =
          [](const Problem& p) {
            return Cost{.bytes = 4.0 * static_cast<double>(2 * p["batch"] + 1 +
                                                           packed_tokens(p["batch"], p["max_q_len"]))};
          },
      .units = [](const Problem& p) { return p["batch"]; },
      .reference =
          [](const Problem& p, const Inputs& in, std::int64_t sequence, Expected& out) {
            const Values lengths = in["lengths"];
            double start = 0;
            for (std::int64_t b = 0; b < sequence; ++b) start += lengths[b];
            if (sequence == 0) out.put("cu_seqlens", 0, {0});
            out.put("cu_seqlens", sequence + 1, {start + lengths[sequence]});
            const double offset = static_cast<double>(sequence * p["max_q_len"]) - start;
            out.put("padding_offset", static_cast<std::int64_t>(start),
                    std::vector<double>(static_cast<std::size_t>(lengths[sequence]), offset));
          },
      .tolerance = [](const Problem&) { return Tolerance{}; },
  };
}

}  // namespace warptune
