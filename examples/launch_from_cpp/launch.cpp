// launch FOLDER [TOKENS]: runs rms_norm and then linear of 1 or more tokens from an exported folder, as
// launches and as a CUDA graph, and compares the result with the host. Exits with 77 where there is no GPU.
//   warptune export --wisdom results/h200/wisdom.json --arch sm_90a -o winners
//     --problem '^(rms_norm\[tokens=1,hidden=4096|linear\[tokens=1,in=4096,out=4096,bias=no),dtype=bf16'
#include <warptune/launch.h>

#include <cmath>
#include <cstdio>
#include <string>

#include "bf16.h"
#include "gpu.h"

namespace {

using warptune::check;

constexpr std::size_t kHidden = 4096, kOut = 4096;
constexpr float kEps = 1e-5f;

/// linear(rms_norm(x)) in double; the normalized rows are rounded as the kernel rounds them.
std::vector<double> expected(const std::vector<std::uint16_t>& x, const std::vector<std::uint16_t>& norm,
                             const std::vector<std::uint16_t>& weight) {
  const std::size_t tokens = x.size() / kHidden;
  std::vector<double> y(tokens * kOut);
  for (std::size_t t = 0; t < tokens; ++t) {
    const std::uint16_t* row = x.data() + t * kHidden;
    double squares = 0;
    for (std::size_t i = 0; i < kHidden; ++i) squares += std::pow(from_bf16(row[i]), 2);
    const double scale = 1 / std::sqrt(squares / static_cast<double>(kHidden) + kEps);
    std::vector<double> normalized(kHidden);
    for (std::size_t i = 0; i < kHidden; ++i)
      normalized[i] = from_bf16(to_bf16(static_cast<float>(from_bf16(row[i]) * scale * from_bf16(norm[i]))));
    for (std::size_t o = 0; o < kOut; ++o)
      for (std::size_t i = 0; i < kHidden; ++i)
        y[t * kOut + o] += normalized[i] * from_bf16(weight[o * kHidden + i]);
  }
  return y;
}

int run(const char* path, const std::string& tokens) {
  const Gpu gpu;
  warptune::Folder folder(path);
  const warptune::Plan norm = folder.load("rms_norm[tokens=" + tokens + ",hidden=4096,dtype=bf16]"),
                       linear = folder.load("linear[tokens=" + tokens + ",in=4096,out=4096,dtype=bf16]");

  const std::size_t rows = std::stoul(tokens);
  const auto x = random_bf16(rows * kHidden, 1, 1), norm_weight = random_bf16(kHidden, 2, 1),
             weight = random_bf16(kOut * kHidden, 3, 1.0f / 64);
  const DeviceArray x_there(x), norm_weight_there(norm_weight), weight_there(weight);
  const DeviceArray normalized{std::vector<std::uint16_t>(rows * kHidden)};
  DeviceArray y{std::vector<std::uint16_t>(rows * kOut)};
  const warptune::Workspace workspace(linear.workspace_bytes());

  warptune::Args norm_args = norm.args(), linear_args = linear.args();
  norm_args.set("x", x_there.address()).set("weight", norm_weight_there.address());
  norm_args.set("y", normalized.address()).set("eps", kEps);
  linear_args.set("x", normalized.address()).set("weight", weight_there.address());
  linear_args.set("y", y.address()).set("workspace", workspace.data());
  const auto launch_both = [&] {
    norm.launch(norm_args, gpu.stream);
    linear.launch(linear_args, gpu.stream);
  };

  const std::vector<double> wanted = expected(x, norm_weight, weight);
  launch_both();
  check(cuStreamSynchronize(gpu.stream), "cuStreamSynchronize");
  const double launched = relative_error(y.read(), wanted);
  y.clear();
  replay(gpu.stream, launch_both);
  const double replayed = relative_error(y.read(), wanted);
  std::printf("rms_norm %s, linear %s: relative error %.2g by launches, %.2g by a graph\n",
              norm.entry().variant.c_str(), linear.entry().variant.c_str(), launched, replayed);
  constexpr double kTolerance = 4e-3;  // bf16 rounds by at most 2^-8
  return launched < kTolerance && replayed < kTolerance ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  return run_example(argc, "usage: launch FOLDER [TOKENS]",
                     [&] { return run(argv[1], argc == 3 ? argv[2] : "1"); });
}
