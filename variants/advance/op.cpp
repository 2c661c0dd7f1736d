// The op advance. Inputs: every third sequence is finished, some sample the end token, and the low
// word of the sampler's step is about to carry.
#include "kernels/advance/args.h"
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
            const auto n = static_cast<std::size_t>(p["batch"]);
            std::vector<std::int32_t> ids(n), positions(n), lengths(n);
            for (std::size_t b = 0; b < n; ++b) {
              ids[b] = static_cast<std::int32_t>(random_bits(seed, b) % 5);
              positions[b] = b % 3 == 2 ? -1 : static_cast<std::int32_t>(random_bits(seed + 1, b) % 1000);
              lengths[b] = positions[b] + 1;
            }
            const auto given = [&](std::string name, Role role, std::vector<std::int64_t> shape,
                                   std::vector<std::int32_t> values) {
              return TensorSpec{.name = std::move(name),
                                .dtype = DType::int32,
                                .shape = std::move(shape),
                                .role = role,
                                .cache = CacheState::hot,
                                .values = std::move(values)};
            };
            return std::vector<TensorSpec>{
                given("ids", Role::input, {p["batch"]}, ids),
                given("positions", Role::inout, {p["batch"]}, positions),
                given("lengths", Role::inout, {p["batch"]}, lengths),
                given("transcript", Role::inout, {p["batch"], kMaxSteps},
                      std::vector<std::int32_t>(n * kMaxSteps, -1)),
                given("step", Role::inout, {1}, {kStep}),
                given("rng", Role::inout, {4}, {12345, 67, -1, 3}),  // two 64-bit words, low halves first
            };
          },
      .bind =
          [](const Problem& p, std::span<void* const> t, void*) {
            return Args(AdvanceArgs{.ids = static_cast<const int*>(t[0]),
                                    .positions = static_cast<int*>(t[1]),
                                    .lengths = static_cast<int*>(t[2]),
                                    .transcript = static_cast<int*>(t[3]),
                                    .step = static_cast<int*>(t[4]),
                                    .rng = static_cast<unsigned long long*>(t[5]),
                                    .batch = static_cast<int>(p["batch"]),
                                    .max_steps = kMaxSteps,
                                    .eos = kEos});
          },
      .fields = {field("ids", &AdvanceArgs::ids), field("positions", &AdvanceArgs::positions),
                 field("lengths", &AdvanceArgs::lengths), field("transcript", &AdvanceArgs::transcript),
                 field("step", &AdvanceArgs::step), field("rng", &AdvanceArgs::rng),
                 field("batch", &AdvanceArgs::batch), field("max_steps", &AdvanceArgs::max_steps),
                 field("eos", &AdvanceArgs::eos)},
      .cost =
          [](const Problem& p) {
            // Reads and writes ids, positions and lengths, one transcript entry, step and sampler.
            return Cost{.bytes = 24.0 * static_cast<double>(p["batch"]) + 24};
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
