// The library variant of all_reduce: NCCL, which is loaded with the first plan.
#include <nccl.h>

#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>

#include "harness/core/lazy_library.h"
#include "harness/core/rank_group.h"
#include "kernels/all_reduce/args.h"
#include "variants/ops.h"

namespace warptune {
namespace {

template <class Function>
Function* nccl(const char* name) {
  // NVLink multicast is never used: a host may share its switches with others.
  static const int multicast_is_off = ::setenv("NCCL_NVLS_ENABLE", "0", 1);
  static_cast<void>(multicast_is_off);
  return reinterpret_cast<Function*>(library_function("libnccl.so.2", name));
}

void check(ncclResult_t result, const char* call) {
  if (result != ncclSuccess)
    throw std::runtime_error(std::string(call) + ": " +
                             nccl<decltype(ncclGetErrorString)>("ncclGetErrorString")(result));
}

/// All ranks make and end theirs together.
class Communicator {
 public:
  explicit Communicator(RankGroup& group) {
    ncclUniqueId id{};
    if (group.rank() == 0) check(nccl<decltype(ncclGetUniqueId)>("ncclGetUniqueId")(&id), "ncclGetUniqueId");
    id = group.all_gather(id).front();
    check(nccl<decltype(ncclCommInitRank)>("ncclCommInitRank")(&handle_, group.ranks(), id, group.rank()),
          "ncclCommInitRank");
  }
  ~Communicator() { nccl<decltype(ncclCommDestroy)>("ncclCommDestroy")(handle_); }
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  ncclComm_t handle() const { return handle_; }

 private:
  ncclComm_t handle_ = nullptr;
};

ncclDataType_t type_of(DType dtype) {
  return dtype == DType::fp32 ? ncclFloat32 : dtype == DType::fp16 ? ncclFloat16 : ncclBfloat16;
}

}  // namespace

std::vector<Variant> all_reduce_nccl() {
  return {{
      .name = "nccl",
      .idea = "NCCL's ring, tree or one-shot algorithm, as its tuning tables choose; a call per launch.",
      .vendor_ranks = [](const Problem& p, const Config&, RankGroup& group) -> VendorFunction {
        const auto elements =
            static_cast<std::size_t>(p["bytes"]) / static_cast<std::size_t>(size_of(p.dtype));
        return [ranks = std::make_shared<Communicator>(group), elements, type = type_of(p.dtype),
                reduce = nccl<decltype(ncclAllReduce)>("ncclAllReduce")](const void* raw, void* stream) {
          const auto& args = *static_cast<const AllReduceArgs*>(raw);
          check(reduce(args.x, args.y, elements, type, ncclSum, ranks->handle(),
                       static_cast<cudaStream_t>(stream)),
                "ncclAllReduce");
        };
      },
  }};
}

}  // namespace warptune
