// The compiler in processes of its own.
#include "harness/device/nvrtc_processes.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>
#include <vector>

#include "harness/core/error.h"
#include "harness/device/nvrtc.h"

#if WARPTUNE_HAS_CUDA
namespace warptune {
namespace {
namespace fs = std::filesystem;

const std::vector<std::string> kOptions = {"-arch=sm_90a", "-std=c++20", "--ptxas-options=-v"};

CustomKernel::Files source(const std::string& body) {
  return {{"k.cu", "#include \"n.h\"\ntemplate <int A> __global__ void k(int* p) { " + body + " }\n"},
          {"n.h", "constexpr int kValue = 7;\n"}};
}

std::string error_of(const NvrtcCall& call, const CustomKernel::Files& files) {
  try {
    call(files, "k<1>", kOptions);
  } catch (const CompileError& e) {
    return e.what();
  }
  return {};
}

TEST(NvrtcProcesses, CompileAsThisProcess) {
  const NvrtcCall call = nvrtc_in_processes(WARPTUNE_PROGRAM, 100);
  const auto files =
      source("__shared__ int s[64]; s[threadIdx.x] = p[0]; __syncthreads(); p[1] = s[A] + kValue;");
  const Cubin here = run_nvrtc(files, "k<3>", kOptions), there = call(files, "k<3>", kOptions);
  EXPECT_EQ(there.code, here.code);
  EXPECT_EQ(there.entry, here.entry);
  EXPECT_EQ(there.registers, here.registers);
  EXPECT_EQ(there.static_shared_bytes, here.static_shared_bytes);
  EXPECT_EQ(there.static_shared_bytes, 256);
  EXPECT_EQ(there.spill_bytes, here.spill_bytes);
  EXPECT_GT(there.compile_ms, 0);
  const auto wrong = source("nothing();");
  EXPECT_NE(error_of(call, wrong).find("k.cu(2): error"), std::string::npos) << error_of(call, wrong);
  EXPECT_EQ(error_of(call, wrong), error_of(run_nvrtc, wrong));
}

TEST(NvrtcProcesses, ServeCallsAtOnce) {
  const NvrtcCall call = nvrtc_in_processes(WARPTUNE_PROGRAM, 100);
  std::vector<std::string> entries(6);
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 6; ++i)
      threads.emplace_back([&, i] {
        entries[static_cast<std::size_t>(i)] =
            call(source("p[0] = A;"), "k<" + std::to_string(i) + ">", kOptions).entry;
      });
  }
  EXPECT_EQ(std::set(entries.begin(), entries.end()).size(), 6u);
}

TEST(NvrtcProcesses, ACompilerThatCrashesEndsNothingElse) {
  ::setenv("WARPTUNE_NVRTC_FAULT", "k<1>", 1);
  const NvrtcCall call = nvrtc_in_processes(WARPTUNE_PROGRAM, 100);
  const std::string error = error_of(call, source("p[0] = A;"));
  EXPECT_NE(error.find("k<1> in k.cu: the compiler died of signal 6"), std::string::npos) << error;
  EXPECT_NO_THROW(call(source("p[0] = A;"), "k<2>", kOptions));
  ::unsetenv("WARPTUNE_NVRTC_FAULT");
}

TEST(NvrtcProcesses, AreNotNeeded) {
  EXPECT_NO_THROW(nvrtc_in_processes("/nowhere/warptune", 100)(source("p[0] = A;"), "k<1>", kOptions));
  CustomKernel::Files latin = source("p[0] = A;");
  latin[0].second += "// \xe9\n";
  EXPECT_NO_THROW(nvrtc_in_processes(WARPTUNE_PROGRAM, 100)(latin, "k<1>", kOptions));
}

TEST(NvrtcProcesses, ACompilationThatHangsIsEnded) {
  const fs::path program = fs::path(::testing::TempDir()) / "hangs";
  std::ofstream(program) << "#!/bin/sh\nexec sleep 1000\n";
  ::chmod(program.c_str(), 0755);
  EXPECT_EQ(error_of(nvrtc_in_processes(program, 0.1), source("p[0] = A;")),
            "k<1> in k.cu: the compiler did not answer within 0.1 seconds");
}

}  // namespace
}  // namespace warptune
#endif
