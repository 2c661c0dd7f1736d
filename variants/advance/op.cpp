// The op advance. Inputs: every third sequence is finished, some sample the end token, and the low
// word of the sampler's step is about to carry.
#include "kernels/advance/args.h"
#include "variants/helpers/specs.h"
#include "variants/ops.h"

namespace warptune {
namespace {

constexpr int kMaxSteps = 8, kStep = 3, kEos = 2;

}  // namespace

Op advance() {
  return {
      .name = "advance",
      .summary = "ends a decode step: transcript, positions, lengths, step and sampler move on",
      .dims = {work_dim({"batch", "sequences"})},
      .dtypes = {DType::int32},
      .tensors =
          [](const Problem& p, std::uint64_t seed) {
            const std::size_t n = p["batch"];
            std::vector<std::int32_t> ids(n), positions(n), lengths(n);
            for (std::size_t b = 0; b < n; ++b) {
              ids[b] = random_bits(seed, b) % 5;
              positions[b] = random_bits(seed + 1, b) % 1000;
              if (b % 3 == 2) positions[b] = -1;
              lengths[b] = positions[b] + 1;
            }
            return std::vector<TensorSpec>{
                given_ints("ids", {p["batch"]}, ids),
                given_ints("positions", {p["batch"]}, positions, Role::inout),
                given_ints("lengths", {p["batch"]}, lengths, Role::inout),
                given_ints("transcript", {p["batch"], kMaxSteps},
                           std::vector<std::int32_t>(n * kMaxSteps, -1), Role::inout),
                given_ints("step", {1}, {kStep}, Role::inout),
                // Two words of 64 bits, low halves first.
                given_ints("rng", {4}, {12345, 67, -1, 3}, Role::inout),
            };
          },
      .fields = {field("ids", &AdvanceArgs::ids), field("positions", &AdvanceArgs::positions),
                 field("lengths", &AdvanceArgs::lengths), field("transcript", &AdvanceArgs::transcript),
                 field("step", &AdvanceArgs::step), field("rng", &AdvanceArgs::rng),
                 field("batch", &AdvanceArgs::batch), field("max_steps", &AdvanceArgs::max_steps, kMaxSteps),
                 field("eos", &AdvanceArgs::eos, kEos)},
      .cost =
          [](const Problem& p) {
            // Reads and writes ids, positions and lengths, one transcript entry, step and sampler.
            return Cost{.bytes = 24.0 * p["batch"] + 24};
          },
      .units = [](const Problem& p) { return p["batch"]; },
      .reference =
          [](const Problem&, const Inputs& in, std::int64_t b, Expected& out) {
            const double id = in["ids"][b], position = in["positions"][b];
            const bool running = position >= 0, ends = id == kEos;
            std::vector<double> row(kMaxSteps, -1);
            if (running) row[kStep] = id;
            out.put("transcript", b * kMaxSteps, std::move(row));
            out.put("positions", b, {running && !ends ? position + 1 : -1});
            out.put("lengths", b, {running && !ends ? in["lengths"][b] + 1 : 0});
            if (b > 0) return;
            out.put("step", 0, {kStep + 1});
            out.put("rng", 0, {12345, 67, 0, 4});
          },
      .tolerance = [](const Problem&) { return Tolerance{}; },
  };
}

}  // namespace warptune
