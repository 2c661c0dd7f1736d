#include "variants/vendor/cudnn_attention.h"

#include <cuda_runtime.h>
#include <cudnn_frontend.h>
#include <fmt/format.h>

#include <cmath>
#include <unordered_map>
#include <vector>

#include "harness/core/error.h"

namespace warptune {
namespace {

namespace fe = cudnn_frontend;

enum Tensor : std::int64_t { kQ = 1, kK, kV, kOut, kQLengths, kLengths };

void check(cudnnStatus_t status, const char* call) {
  if (status != CUDNN_STATUS_SUCCESS)
    throw std::runtime_error(fmt::format("{}: {}", call, cudnnGetErrorString(status)));
}
void check(cudaError_t status, const char* call) {
  if (status != cudaSuccess)
    throw std::runtime_error(fmt::format("{}: {}", call, cudaGetErrorString(status)));
}

struct DestroyHandle {
  using pointer = cudnnHandle_t;
  void operator()(cudnnHandle_t handle) const { cudnnDestroy(handle); }
};
using Handle = std::unique_ptr<std::remove_pointer_t<cudnnHandle_t>, DestroyHandle>;

Handle make_handle() {
  cudnnHandle_t raw = nullptr;
  check(cudnnCreate(&raw), "cudnnCreate");
  return Handle(raw);
}

struct FreeDevice {
  void operator()(int* data) const { cudaFree(data); }
};
using DeviceInts = std::unique_ptr<int, FreeDevice>;

DeviceInts repeated(std::int64_t count, int value) {
  const std::vector<int> host(static_cast<std::size_t>(count), value);
  int* raw = nullptr;
  check(cudaMalloc(&raw, host.size() * sizeof(int)), "cudaMalloc");
  DeviceInts owned(raw);
  check(cudaMemcpy(raw, host.data(), host.size() * sizeof(int), cudaMemcpyHostToDevice), "cudaMemcpy");
  return owned;
}

fe::graph::Tensor_attributes tensor(Tensor uid, std::vector<std::int64_t> dim,
                                    std::vector<std::int64_t> stride) {
  return fe::graph::Tensor_attributes().set_uid(uid).set_dim(std::move(dim)).set_stride(std::move(stride));
}

}  // namespace

struct CudnnAttention::ExecutionPlan {
  Handle handle = make_handle();
  fe::graph::Graph graph;
  std::int64_t capacity;
  DeviceInts q_lengths;  // with lengths of keys in memory cuDNN needs those of the queries, too

  ExecutionPlan(const CudnnAttentionShape& s, std::int64_t capacity_of_cache, std::int64_t plan)
      : capacity(capacity_of_cache) {
    const auto io = s.dtype == DType::fp16 ? fe::DataType_t::HALF : fe::DataType_t::BFLOAT16;
    graph.set_io_data_type(io)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    const std::int64_t d = s.head_dim;
    const std::vector<std::int64_t> queries = {s.batch, s.q_heads, s.q_len, d},
                                    query_stride = {s.q_len * s.q_heads * d, d, s.q_heads * d, 1},
                                    keys = {s.batch, s.kv_heads, s.kv_len, d},
                                    key_stride = {s.kv_heads * capacity * d, capacity * d, d, 1};
    auto q = graph.tensor(tensor(kQ, queries, query_stride));
    auto k = graph.tensor(tensor(kK, keys, key_stride));
    auto v = graph.tensor(tensor(kV, keys, key_stride));
    auto options = fe::graph::SDPA_attributes().set_generate_stats(false).set_attn_scale(
        1.0f / std::sqrt(static_cast<float>(d)));
    if (s.causal != CausalMask::none)
      options
          .set_diagonal_alignment(s.causal == CausalMask::top_left || s.q_len == s.kv_len
                                      ? fe::DiagonalAlignment_t::TOP_LEFT
                                      : fe::DiagonalAlignment_t::BOTTOM_RIGHT)
          .set_diagonal_band_right_bound(0);
    if (s.has_lengths) {
      q_lengths = repeated(s.batch, static_cast<int>(s.q_len));
      const auto lengths = [&](Tensor uid) {
        return graph.tensor(
            tensor(uid, {s.batch, 1, 1, 1}, {1, 1, 1, 1}).set_data_type(fe::DataType_t::INT32));
      };
      options.set_padding_mask(true).set_seq_len_q(lengths(kQLengths)).set_seq_len_kv(lengths(kLengths));
    }
    auto out = graph.sdpa(q, k, v, options)[0];
    out->set_output(true).set_uid(kOut).set_dim(queries).set_stride(query_stride);

    const auto supported = [](fe::error_t status) {
      if (status.is_bad()) throw ResourceError(fmt::format("cuDNN: {}", status.get_message()));
    };
    supported(graph.validate());
    supported(graph.build_operation_graph(handle.get()));
    supported(graph.create_execution_plans({fe::HeurMode_t::A}));
    graph.deselect_workspace_greater_than(kWorkspaceBytes);
    if (plan >= graph.get_execution_plan_count())
      throw ResourceError(fmt::format("cuDNN proposes {} plans; number {} is not among them",
                                      graph.get_execution_plan_count(), plan));
    supported(graph.build_plan_at_index(plan));
  }
};

CudnnAttention::CudnnAttention(const CudnnAttentionShape& shape, std::int64_t capacity, std::int64_t plan)
    : shape_(shape), plan_(plan), built_(std::make_unique<ExecutionPlan>(shape, capacity, plan)) {}
CudnnAttention::~CudnnAttention() = default;

void CudnnAttention::run(const CudnnAttentionPointers& p, std::int64_t capacity, void* workspace,
                         void* stream) {
  if (capacity != built_->capacity) built_ = std::make_unique<ExecutionPlan>(shape_, capacity, plan_);
  check(cudnnSetStream(built_->handle.get(), static_cast<cudaStream_t>(stream)), "cudnnSetStream");
  std::unordered_map<std::int64_t, void*> pointers = {{kQ, const_cast<void*>(p.q)},
                                                      {kK, const_cast<void*>(p.k)},
                                                      {kV, const_cast<void*>(p.v)},
                                                      {kOut, p.out}};
  if (shape_.has_lengths) {
    pointers[kQLengths] = built_->q_lengths.get();
    pointers[kLengths] = const_cast<int*>(p.lengths);
  }
  fe::error_t status = built_->graph.execute_plan_at_index(built_->handle.get(), pointers, workspace, plan_);
  if (status.is_bad()) throw std::runtime_error(fmt::format("cuDNN: {}", status.get_message()));
}

}  // namespace warptune
