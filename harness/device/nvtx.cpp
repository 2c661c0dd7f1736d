#include "harness/device/nvtx.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "harness/core/hash.h"
#if !defined(WARPTUNE_NO_NVTX) && __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define WARPTUNE_HAS_NVTX 1
#endif

namespace warptune {
namespace {

struct KindStyle {
  NvtxKind kind;
  const char* name;
  std::uint32_t color;  // the color of a range that belongs to no op
};

constexpr std::uint32_t kGray = 0xff808080;
constexpr auto kStyles = std::to_array<KindStyle>({{NvtxKind::phase, "phase", 0xff4472c4},
                                                   {NvtxKind::graph, "graph", 0xff2e8b57},
                                                   {NvtxKind::layer, "layer", 0xffa0a0a0},
                                                   {NvtxKind::op, "op", kGray},
                                                   {NvtxKind::problem, "problem", kGray},
                                                   {NvtxKind::variant, "variant", kGray},
                                                   {NvtxKind::config, "config", kGray},
                                                   {NvtxKind::stage, "stage", 0xffc0c0c0}});

[[maybe_unused]] std::uint32_t color_of(NvtxKind kind, std::string_view op) {
  return op.empty() ? kStyles[static_cast<std::size_t>(kind) - 1].color : nvtx_color(op);
}

}  // namespace

/// A hue and one of four brightnesses from the hash of the name.
std::uint32_t nvtx_color(std::string_view op) {
  constexpr double kSaturation = 0.7;
  constexpr const char* kSalt = "1393041";  // of three million, it keeps the colors of the ops furthest apart
  const std::uint64_t hash = stable_hash(std::string(op) + kSalt);
  const double hue = static_cast<double>(hash % 360) / 60;
  const double value = 1.0 - 0.12 * static_cast<double>(hash >> 32 & 3);
  const auto channel = [&](double shift) {
    const double at = std::fmod(shift + hue, 6);
    const double share = 1 - kSaturation * std::max(0.0, std::min({at, 4 - at, 1.0}));
    return static_cast<std::uint32_t>(std::lround(255 * value * share));
  };
  return 0xff000000 | channel(5) << 16 | channel(3) << 8 | channel(1);
}

#if WARPTUNE_HAS_NVTX
namespace {

/// The domain of this process; null where no tool listens: NVTX then has no function that creates one.
nvtxDomainHandle_t domain() {
  static const nvtxDomainHandle_t handle = [] {
    const nvtxDomainHandle_t created = nvtxDomainCreateA("warptune");
    if (created)
      for (const KindStyle& style : kStyles)
        nvtxDomainNameCategoryA(created, static_cast<std::uint32_t>(style.kind), style.name);
    return created;
  }();
  return handle;
}

nvtxEventAttributes_t attributes(NvtxKind kind, std::uint32_t color) {
  nvtxEventAttributes_t event{};
  event.version = NVTX_VERSION;
  event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  event.category = static_cast<std::uint32_t>(kind);
  event.colorType = NVTX_COLOR_ARGB;
  event.color = color;
  return event;
}

}  // namespace

bool nvtx_listens() { return domain() != nullptr; }

NvtxName NvtxName::registered(NvtxKind kind, std::string_view op, const std::string& text) {
  NvtxName name;
  name.handle_ = nvtxDomainRegisterStringA(domain(), text.c_str());
  name.kind_ = kind;
  name.color_ = color_of(kind, op);
  return name;
}

void NvtxRange::push(const NvtxName& name) {
  nvtxEventAttributes_t event = attributes(name.kind_, name.color_);
  event.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  event.message.registered = static_cast<nvtxStringHandle_t>(name.handle_);
  nvtxDomainRangePushEx(domain(), &event);
}

void NvtxRange::push(NvtxKind kind, std::string_view op, const std::string& text) {
  nvtxEventAttributes_t event = attributes(kind, color_of(kind, op));
  event.messageType = NVTX_MESSAGE_TYPE_ASCII;
  event.message.ascii = text.c_str();
  nvtxDomainRangePushEx(domain(), &event);
}

void NvtxRange::pop() { nvtxDomainRangePop(domain()); }
#else
bool nvtx_listens() { return false; }
NvtxName NvtxName::registered(NvtxKind, std::string_view, const std::string&) { return {}; }
void NvtxRange::push(const NvtxName&) {}
void NvtxRange::push(NvtxKind, std::string_view, const std::string&) {}
void NvtxRange::pop() {}
#endif

}  // namespace warptune
