#pragma once
// A named range in a profiler's timeline. Does nothing without the NVTX header or with -DWARPTUNE_NVTX=OFF.
#include <string>
#if !defined(WARPTUNE_NO_NVTX) && __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define WARPTUNE_HAS_NVTX 1
#endif

namespace warptune {

class NvtxRange {
 public:
#if WARPTUNE_HAS_NVTX
  explicit NvtxRange(const std::string& name) { nvtxRangePushA(name.c_str()); }
  ~NvtxRange() { nvtxRangePop(); }
#else
  explicit NvtxRange(const std::string&) {}
#endif
  NvtxRange(const NvtxRange&) = delete;
  NvtxRange& operator=(const NvtxRange&) = delete;
};

}  // namespace warptune
