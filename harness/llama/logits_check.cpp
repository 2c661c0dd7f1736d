#include "harness/llama/logits_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "harness/core/variant.h"

namespace warptune {
namespace {

void check_on_host(const LogitsCheckArgs& a, DType dtype) {
  for (int b = 0; b < a.batch; ++b) {
    const int id = a.sampled[static_cast<std::int64_t>(b) * a.sampled_stride + a.step];
    if (id < 0 || std::isfinite(load(dtype, a.logits, static_cast<std::int64_t>(b) * a.vocab + id))) continue;
    const auto at = static_cast<unsigned long long>(a.step) << 32 | static_cast<unsigned>(b);
    *a.first = std::min(*a.first, at);
  }
}

/// A plan of the harness itself: it is no op, and nothing of it is tuned.
Variant check_variant() {
  return {.name = "logits_check",
          .idea = "One block looks at the logit of each sampled token.",
          .stages = {{"support/logits_check.cu", "logits_check<{dtype}>",
                      LaunchExpressions{.grid = {1}, .block = {128}}}},
          .host = [](const Problem& p, const Config&) {
            return [dtype = p.dtype](const void* args) {
              check_on_host(*static_cast<const LogitsCheckArgs*>(args), dtype);
            };
          }};
}

}  // namespace

LogitsCheck::LogitsCheck(Device& device, DType dtype)
    : device_(device),
      plan_(device.prepare(check_variant(), {.op = "logits_check", .dtype = dtype}, {})),
      first_(device.allocate(sizeof(std::uint64_t))) {
  clear();
}

void LogitsCheck::clear() { device_.set_bytes(first_.data(), 0xff, first_.bytes(), device_.stream()); }

void LogitsCheck::enqueue(LogitsCheckArgs args) {
  args.first = first_.as<unsigned long long>();
  plan_->launch(&args, device_.stream());
}

std::optional<LogitsCheck::Found> LogitsCheck::found() const {
  std::uint64_t first = 0;
  device_.download(&first, first_.data(), sizeof(first));
  if (first == ~std::uint64_t{0}) return std::nullopt;
  return Found{.step = static_cast<int>(first >> 32), .sequence = static_cast<int>(first & 0xffffffffu)};
}

std::string LogitsCheck::Found::str() const {
  return fmt::format("the logits of {} are NaN or infinite (sequence {})",
                     step == 0 ? "the prefill" : fmt::format("step {}", step), sequence);
}

}  // namespace warptune
