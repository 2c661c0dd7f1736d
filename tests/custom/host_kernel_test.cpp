// Kernels from files on the host: what runs there, and what is said of the others.
#include "harness/custom/host_kernel.h"

#include <gtest/gtest.h>

#include "harness/core/space.h"
#include "harness/tune/schedule.h"
#include "tests/custom/kernel_file.h"
#include "tests/custom/sample_kernels.h"
#include "tests/support.h"

namespace warptune {
namespace {

using testing::Definition;
using testing::kernel_folder;
using testing::table_of;
using testing::write;
namespace fs = std::filesystem;

Problem problem_of(const OpEntry& entry, DType dtype = DType::fp32) {
  return entry.op.problem(Assignment{{"tokens", 5}, {"hidden", 8}}, dtype);
}

std::shared_ptr<const OpTable> plain_table(const std::string& name) {
  return table_of(testing::write_plain_kernel(kernel_folder(name)));
}

/// Two stages, a workspace, a structure, words and constant memory.
TEST(HostKernel, PlainKernelsRunAndAreVerified) {
  const auto table = plain_table("host_kernel_plain");
  const OpEntry& entry = table->find("rms_norm");
  const Variant& variant = entry.variant("plain");
  const OwnedDevice device = open_device("host");
  const Problem problem = problem_of(entry);
  std::vector<testing::ChosenConfig> chosen;
  for (const Config& config : Space(variant, problem, device->facts()).configs()) {
    EXPECT_EQ(variant.why_not_on_host(problem, config), "");
    chosen.push_back({&variant, problem, config});
  }
  EXPECT_EQ(chosen.size(), 2u);
  testing::check_configs(*device, entry, chosen);
}

TEST(HostKernel, SaysWhyAFileDoesNotRun) {
  const fs::path folder = kernel_folder("host_kernel_why");
  const auto why = [&](const Definition& d, DType dtype = DType::fp32) {
    const auto table = table_of(write(folder / "kernels.yaml", d.text()));
    const OpEntry& entry = table->find("rms_norm");
    return entry.variant("scale").why_not_on_host(problem_of(entry, dtype), Config{{"block", 64}});
  };
  const auto holds = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  const Definition typed{.kernel = "kernel: \"typed<{dtype}, {block}>\"", .arguments = "arguments: [x, y]"};
  holds(why(typed),
        "scale.cu:7:11: error: a kernel that runs without a GPU has no shared memory, barriers or atomics");
  write(folder / "half.cu", "template <class T> __global__ void plain(const T* x, T* y) { y[0] = x[0]; }\n");
  const Definition half{
      .source = "source: half.cu", .kernel = "kernel: \"plain<{dtype}>\"", .arguments = "arguments: [x, y]"};
  EXPECT_EQ(why(half), "");
  Definition misspelled = half;
  misspelled.kernel = "kernel: \"plane<{dtype}>\"";
  holds(why(misspelled), "kernels.yaml:2:");
  holds(why(half, DType::fp16), "__half");
  write(folder / "code.cubin", "code");
  EXPECT_EQ(why({.source = "cubin: code.cubin", .define = ""}),
            "'" + (folder / "code.cubin").string() + "' is machine code");
}

TEST(HostKernel, OtherParametersThanArgumentsPassesAreTold) {
  const fs::path folder = kernel_folder("host_kernel_parameters");
  write(folder / "few.cu", "extern \"C\" __global__ void few(const float* x, float* y) { y[0] = x[0]; }\n");
  const Definition few{
      .source = "source: few.cu", .kernel = "kernel: few", .arguments = "arguments: [x, hidden]"};
  const auto table = table_of(write(folder / "kernels.yaml", few.text()));
  const OpEntry& entry = table->find("rms_norm");
  EXPECT_EQ(testing::message_of<CompileError>(
                folder,
                [&] {
                  entry.variant("scale").host(problem_of(entry), Config{{"block", 64}});
                }),
            "kernels.yaml:2: kernel 'few' takes other parameters (2 of 8, 8 bytes) than 'arguments' passes "
            "(2 of 8, 4 "
            "bytes)");
}

TEST(HostKernel, AScheduleOfTheHostHasPlainKernelsOnly) {
  const auto table = plain_table("host_kernel_schedule");
  const OpEntry& entry = table->find("rms_norm");
  const DeviceFacts host{.name = "host"};
  Sweep sweep{.name = "s", .ops = table.get()};
  sweep.items.push_back(
      {.entry = &entry,
       .problem = problem_of(entry),
       .choices = {{.variant = &entry.variant("plain")}, {.variant = &entry.variant("host_naive")}},
       .named = true,
       .where = "s.yaml:3"});
  EXPECT_EQ(make_schedule(sweep, host)[0].candidates.size(), 3u);
  EXPECT_EQ(make_schedule(sweep, known_device("sm_80"))[0].candidates.size(), 2u);
  sweep.items[0].problem = problem_of(entry, DType::bf16);
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(make_schedule(sweep, host)[0].candidates.size(), 1u);
  const std::string note = ::testing::internal::GetCapturedStderr();
  EXPECT_TRUE(note.starts_with("note: rms_norm/plain in bf16 is not run, since it needs a GPU: ")) << note;
  sweep.items[0].choices.pop_back();
  const std::string error = testing::message_of<InputError>("none", [&] { make_schedule(sweep, host); });
  EXPECT_TRUE(error.starts_with(
      "s.yaml:3: none of the variants named for op 'rms_norm' runs on device 'host' in bf16; "
      "rms_norm/plain in bf16 is not run, since it needs a GPU: "))
      << error;
  EXPECT_THROW(make_schedule(sweep, host, "no_such_variant"), InputError);
}

}  // namespace
}  // namespace warptune
