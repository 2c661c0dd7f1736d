// The op all_gather: the columns of all ranks side by side, as the logits of a split vocabulary.
#include "kernels/all_gather/args.h"
#include "variants/helpers/ranks.h"
#include "variants/ops.h"

namespace warptune {

Op all_gather() {
  return {
      .name = "all_gather",
      .summary = "y = the columns of all ranks side by side",
      .dims = {work_dim({"tokens", "rows"}), {"columns", "columns of each rank"}, ranks_dim()},
      .check =
          [](const Problem& p) {
            expect_packets(p, "columns", p["columns"] * static_cast<std::int64_t>(size_of(p.dtype)));
          },
      .tensors =
          [](const Problem& p, std::uint64_t) {
            return std::vector{
                of_all_ranks(activation("x", p.dtype, {p["ranks"], p["tokens"], p["columns"]})),
                activation("y", p.dtype, {p["tokens"], p["ranks"] * p["columns"]}, Role::output)};
          },
      .fields = {field("x", &AllGatherArgs::x), field("y", &AllGatherArgs::y),
                 field("tokens", &AllGatherArgs::tokens)},
      .cost =
          [](const Problem& p) {
            const double mine = double(p["tokens"]) * p["columns"] * size_of(p.dtype);
            return Cost{.bytes = mine * (1 + p["ranks"])};
          },
      .units = [](const Problem& p) { return p["tokens"]; },
      .reference =
          [](const Problem& p, const Inputs& in, std::int64_t token, Expected& out) {
            const Values x = in["x"];
            const std::int64_t tokens = p["tokens"], columns = p["columns"];
            std::vector<double> row;
            for (std::int64_t rank = 0; rank < p["ranks"]; ++rank)
              for (std::int64_t i = 0; i < columns; ++i)
                row.push_back(x[(rank * tokens + token) * columns + i]);
            out.put("y", token * p["ranks"] * columns, std::move(row));
          },
      .tolerance = [](const Problem& p) { return default_tolerance(p.dtype); },
  };
}

}  // namespace warptune
