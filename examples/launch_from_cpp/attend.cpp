// attend FOLDER [CONTEXT]: attention of one token per sequence, with the heads of llama3-8b, from an exported
// folder, as a launch and as a CUDA graph, compared with the host. Exits with 77 where there is no GPU.
//   warptune export --wisdom results/h200/wisdom.json --arch sm_90a -o winners
//     --problem '^attention_decode\[batch=1,q_heads=32,kv_heads=8,head_dim=128,context=4096,dtype=bf16'
#include <warptune/launch.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>

#include "bf16.h"
#include "gpu.h"

namespace {

using warptune::check;

constexpr std::size_t kQHeads = 32, kKvHeads = 8, kHeadDim = 128;

/// softmax(q K / sqrt(head_dim)) V in double. The cache is [kv_heads, capacity, head_dim], all keys in use.
std::vector<double> expected(const std::vector<std::uint16_t>& q, const std::vector<std::uint16_t>& k,
                             const std::vector<std::uint16_t>& v) {
  const std::size_t keys = k.size() / (kKvHeads * kHeadDim);
  std::vector<double> out(q.size()), weights(keys);
  for (std::size_t head = 0; head < kQHeads; ++head) {
    const std::size_t first = head / (kQHeads / kKvHeads) * keys;  // row of the KV head
    for (std::size_t key = 0; key < keys; ++key) {
      double score = 0;
      for (std::size_t i = 0; i < kHeadDim; ++i)
        score += from_bf16(q[head * kHeadDim + i]) * from_bf16(k[(first + key) * kHeadDim + i]);
      weights[key] = score / std::sqrt(static_cast<double>(kHeadDim));
    }
    const double most = *std::max_element(weights.begin(), weights.end());
    double sum = 0;
    for (double& weight : weights) sum += weight = std::exp(weight - most);
    for (std::size_t key = 0; key < keys; ++key)
      for (std::size_t i = 0; i < kHeadDim; ++i)
        out[head * kHeadDim + i] += weights[key] / sum * from_bf16(v[(first + key) * kHeadDim + i]);
  }
  return out;
}

int run(const char* path, const std::string& context) {
  const Gpu gpu;
  warptune::Folder folder(path);
  const warptune::Plan attention = folder.load(
      "attention_decode[batch=1,q_heads=32,kv_heads=8,head_dim=128,context=" + context + ",dtype=bf16]");

  const std::size_t keys = std::stoul(context);
  const auto q = random_bf16(kQHeads * kHeadDim, 1, 1), k = random_bf16(kKvHeads * keys * kHeadDim, 2, 1),
             v = random_bf16(kKvHeads * keys * kHeadDim, 3, 1);
  const DeviceArray q_there(q), k_there(k), v_there(v);
  DeviceArray out{std::vector<std::uint16_t>(kQHeads * kHeadDim)};
  const auto length = static_cast<std::uint32_t>(keys);  // an int of two halves
  const DeviceArray lengths({static_cast<std::uint16_t>(length), static_cast<std::uint16_t>(length >> 16)});
  const warptune::Workspace workspace(attention.workspace_bytes());

  warptune::Args args = attention.args();
  args.set("q", q_there.address()).set("k_cache", k_there.address()).set("v_cache", v_there.address());
  args.set("lengths", lengths.address()).set("out", out.address());
  args.set("capacity", static_cast<std::int64_t>(keys)).set("scale", 1 / std::sqrt(double{kHeadDim}));
  if (attention.workspace_bytes() > 0) args.set("workspace", workspace.data());

  const std::vector<double> wanted = expected(q, k, v);
  attention.launch(args, gpu.stream);
  check(cuStreamSynchronize(gpu.stream), "cuStreamSynchronize");
  const double launched = relative_error(out.read(), wanted);
  out.clear();
  replay(gpu.stream, [&] { attention.launch(args, gpu.stream); });
  const double replayed = relative_error(out.read(), wanted);
  std::printf("attention_decode %s: relative error %.2g by a launch, %.2g by a graph\n",
              attention.entry().variant.c_str(), launched, replayed);
  constexpr double kTolerance = 4e-3;  // bf16 rounds by at most 2^-8
  return launched < kTolerance && replayed < kTolerance ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  return run_example(argc, "usage: attend FOLDER [CONTEXT]",
                     [&] { return run(argv[1], argc == 3 ? argv[2] : "4096"); });
}
