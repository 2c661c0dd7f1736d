// linear on fp8 weights and activations by cuBLASLt: a baseline of its GEMM. Rows of x are quantized and the
// packed weights are unpacked first, which are parts of its time.
#include <cstddef>
#include <memory>

#include "kernels/linear/args.h"
#include "variants/linear/operands.h"
#include "variants/vendor/scaled_gemm.h"
#include "variants/vendor/unfused_attention.h"

namespace warptune {
namespace {

/// The workspace: x and its scales (kernels/linear/packed/quantized_rows.cuh), the weights in rows, the
/// library's.
const std::vector<DerivedValue> kFp8Layout = {
    {"weight_offset", "256 * ceil_div(tokens * (in + 4), 256)", "bytes before the rows of weights"},
    {"library_offset", "weight_offset + 256 * ceil_div(in * out, 256)",
     "bytes before the library's workspace"}};

VendorFunction fp8_gemm(const Problem& p, const Config& c) {
  const ScaledGemmShape shape{
      .output = p.dtype, .rows = p["tokens"], .columns = p["out"], .inner = p["in"], .bias = p["bias"] != 0};
  return [gemm = std::make_shared<ScaledGemm>(shape, c["algo"]), x_bytes = p["tokens"] * p["in"],
          weight = layout_value(kFp8Layout, "weight_offset", p),
          library = layout_value(kFp8Layout, "library_offset", p)](const void* raw, void* stream) {
    const auto& a = *static_cast<const QuantizedLinearArgs*>(raw);
    auto* const workspace = static_cast<std::byte*>(a.workspace);
    gemm->run({.a = workspace,
               .a_scales = workspace + x_bytes,
               .b = workspace + weight,
               .b_scales = a.scales,
               .bias = a.bias,
               .c = a.y,
               .workspace = workspace + library},
              stream);
  };
}

}  // namespace

std::vector<Variant> linear_vendor_fp8() {
  return {{
      .name = "cublaslt_fp8",
      .idea = "fp8 weights and activations: rows are quantized, weights are unpacked to rows, then "
              "cuBLASLt's fp8 "
              "GEMM with a scale per row; algorithms of its heuristic in their order.",
      .parameters = {{"algo", {0, 1, 2, 3}, "index among the heuristic's results"}},
      .derived = kFp8Layout,
      .constraints = {"activations == fp8", "group == 0", "has_wgmma", "in % 64 == 0", "out % 16 == 0",
                      "prologue == none", "epilogue == none"},
      .dtypes = {DType::fp16, DType::bf16},
      .stages = {quantize_rows(0),
                 {.file = "linear/packed/unpack_rows.cu",
                  .kernel = "linear_unpack_rows<{in}, {out}, {weight_offset}>",
                  .geometry = {.grid = {"ceil_div(in * out, 4096)"}, .block = {256}}},
                 {.library = fp8_gemm}},
      .workspace = "library_offset" + Expression(ScaledGemm::kWorkspaceBytes),
  }};
}

}  // namespace warptune
