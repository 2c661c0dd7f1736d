// The op padding_offset.
#include "kernels/padding_offset/args.h"
#include "variants/helpers/lengths.h"
#include "variants/helpers/specs.h"
#include "variants/ops.h"

namespace warptune {

Op padding_offset() {
  using A = PaddingOffsetArgs;
  return {
      .name = "padding_offset",
      .summary = "prefix sums of lengths, and how far each packed token is from its padded place",
      .dims = {work_dim({"batch", "sequences"}), {"max_q_len", "padded length"}},
      .dtypes = {DType::int32},
      .check = [](const Problem& p) { check_row_count(p, true); },
      .tensors =
          [](const Problem& p, std::uint64_t seed) {
            return std::vector<TensorSpec>{
                given_ints("lengths", {p["batch"]}, uneven_lengths(p["batch"], p["max_q_len"], seed)),
                activation("cu_seqlens", DType::int32, {p["batch"] + 1}, Role::output),
                {.name = "padding_offset",
                 .dtype = DType::int32,
                 .shape = {p["batch"] * p["max_q_len"]},
                 .role = Role::output,
                 .cache = CacheState::hot,
                 .sparse = true},
            };
          },
      .fields = {field("lengths", &A::lengths), field("cu_seqlens", &A::cu_seqlens),
                 field("padding_offset", &A::padding_offset), field("batch", &A::batch),
                 field("max_q_len", &A::max_q_len)},
      .cost = [](const Problem& p) { return Cost{.bytes = 4.0 * (2 * p["batch"] + 1 + packed_tokens(p))}; },
      .units = [](const Problem& p) { return p["batch"]; },
      .reference =
          [](const Problem& p, const Inputs& in, std::int64_t sequence, Expected& out) {
            const Values lengths = in["lengths"];
            double start = 0;
            for (std::int64_t b = 0; b < sequence; ++b) start += lengths[b];
            if (sequence == 0) out.put("cu_seqlens", 0, {0});
            out.put("cu_seqlens", sequence + 1, {start + lengths[sequence]});
            out.put("padding_offset", start,
                    std::vector<double>(lengths[sequence], sequence * p["max_q_len"] - start));
          },
      .tolerance = [](const Problem&) { return Tolerance{}; },
  };
}

}  // namespace warptune
