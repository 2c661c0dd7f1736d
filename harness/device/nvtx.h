#pragma once
// Named ranges in the timeline of a profiler (NVTX domain "warptune"). Where no tool listens, and in a build
// with -DWARPTUNE_NVTX=OFF, a range costs a branch, and its text is not built.
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

namespace warptune {

/// What a range stands for: the category of its event.
enum class NvtxKind : std::uint32_t { phase = 1, graph, layer, op, problem, variant, config, stage };

/// The color (ARGB) of all ranges of an op, the same in every run.
std::uint32_t nvtx_color(std::string_view op);

/// Whether a tool listens. A tool is loaded with the first range of a process, or never.
bool nvtx_listens();

/// The name of a range that occurs often, registered with the tool once.
class NvtxName {
 public:
  /// Ranges of this name are omitted.
  NvtxName() = default;
  /// `text` is called only where a tool listens. An `op` gives the color, else `kind` does.
  template <std::invocable Text>
  NvtxName(NvtxKind kind, std::string_view op, Text&& text) {
    if (nvtx_listens()) *this = registered(kind, op, text());
  }

 private:
  friend class NvtxRange;
  static NvtxName registered(NvtxKind kind, std::string_view op, const std::string& text);
  void* handle_ = nullptr;  // an nvtxStringHandle_t, which lives as long as the process
  NvtxKind kind_ = NvtxKind::phase;
  std::uint32_t color_ = 0;
};

/// A range of the calling thread, from construction to destruction. Ranges nest.
class [[nodiscard]] NvtxRange {
 public:
  explicit NvtxRange(const NvtxName& name) : open_(name.handle_ != nullptr) {
    if (open_) push(name);
  }
  /// A range whose name occurs once, as NvtxName takes it; the tool copies the text.
  template <std::invocable Text>
  NvtxRange(NvtxKind kind, std::string_view op, Text&& text) : open_(nvtx_listens()) {
    if (open_) push(kind, op, text());
  }
  ~NvtxRange() {
    if (open_) pop();
  }
  NvtxRange(const NvtxRange&) = delete;
  NvtxRange& operator=(const NvtxRange&) = delete;

 private:
  static void push(const NvtxName& name);
  static void push(NvtxKind kind, std::string_view op, const std::string& text);
  static void pop();
  const bool open_;
};

}  // namespace warptune
