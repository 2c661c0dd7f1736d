// A hang, a crash and a lost device each cost only their row.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "harness/tune/device_file.h"
#include "harness/tune/device_worker.h"
#include "harness/tune/worker_group.h"

namespace warptune {
namespace {

class Worker : public ::testing::Test {
 protected:
  void fault(const char* text) { ::setenv("WARPTUNE_WORKER_FAULT", text, 1); }
  void TearDown() override { ::unsetenv("WARPTUNE_WORKER_FAULT"); }
  Measurement run(int threads, double seconds = 60) {
    return worker_.run({.problem = {"rms_norm", {{"tokens", 8}, {"hidden", 32}}, DType::fp32},
                        .options = {.min_samples = 3, .max_time = 0.01},
                        .variant = "host_threaded",
                        .config = {{"threads", threads}}},
                       seconds);
  }
  WorkerGroup worker_{WARPTUNE_PROGRAM, {"host"}};
};

TEST_F(Worker, CrashCostsOneResult) {
  fault("segv:threads=2");
  EXPECT_EQ(run(1).status, Status::ok);
  const Measurement crashed = run(2);
  EXPECT_EQ(crashed.status, Status::crash);
  EXPECT_NE(crashed.detail.find("signal 11"), std::string::npos) << crashed.detail;
  EXPECT_EQ(run(1).status, Status::ok);
}

TEST_F(Worker, ReportsHowLongItsStagesTook) {
  const Stopwatch watch;
  run(1);
  const StageTimes first = worker_.stages();
  run(1);
  const StageTimes both = worker_.stages();
  EXPECT_GT(first[TuningStage::reference], 0);
  EXPECT_EQ(both[TuningStage::reference], first[TuningStage::reference]) << "once per problem";
  EXPECT_GT(both[TuningStage::samples], first[TuningStage::samples]);
  EXPECT_EQ(both[TuningStage::compile], 0) << "the parent's";
  EXPECT_LE(both.sum(), watch.seconds());
}

TEST_F(Worker, HangIsKilledAtItsDeadline) {
  fault("loop:threads=2");
  EXPECT_EQ(run(2, 0.5).status, Status::timeout);
  EXPECT_EQ(run(1).status, Status::ok);
}

TEST_F(Worker, LostDeviceGetsANewProcess) {
  fault("throw:threads=2");
  const Measurement lost = run(2);
  EXPECT_EQ(lost.status, Status::launch_error);
  EXPECT_EQ(lost.detail, "the device is lost");
  EXPECT_EQ(run(1).status, Status::ok);
}

TEST_F(Worker, TimesFinalistsInTurnAndSurvivesOneThatCrashes) {
  FinalistsJob job{.problem = {"rms_norm", {{"tokens", 8}, {"hidden", 32}}, DType::fp32},
                   .options = {.min_samples = 3, .max_time = 0.01},
                   .rounds = 4,
                   .finalists = {{"host_threaded", {{"threads", 1}}}, {"host_naive", {}}}};
  const auto times = worker_.run(job, 60);
  ASSERT_EQ(times.size(), 2u);
  for (const FinalistTimes& t : times)
    for (const Measurement* m : {&t.main, &t.hot, &t.isolated}) {
      EXPECT_EQ(m->status, Status::ok) << m->detail;
      EXPECT_GT(m->time_us, 0);
      EXPECT_LE(m->samples, 4);
    }
  EXPECT_EQ(times[0].isolated.launches_per_sample, 1);

  fault("abort:finalist threads=2");
  WorkerGroup other(WARPTUNE_PROGRAM, {"host"});
  job.finalists.push_back({"host_threaded", {{"threads", 2}}});
  EXPECT_THROW(other.run(job, 60), std::runtime_error);
  job.finalists.pop_back();
  EXPECT_EQ(other.run(job, 60).size(), 2u);
}

TEST_F(Worker, ARefutedPeakIsMeasuredAgainAndSaved) {
  const auto file = std::filesystem::path(::testing::TempDir()) / "raised_device.json";
  TuneOptions options;
  options.program = WARPTUNE_PROGRAM;
  DeviceWorker worker(options, {"host"});
  DeviceFacts low = worker.facts();
  low.read_gb_per_s = 1e-9;  // as if the machine had been busy
  save_device_file(file, low);
  worker.know_peaks(file);
  EXPECT_EQ(worker.facts().read_gb_per_s, 1e-9);
  Deadline deadline(options.deadline);
  const Measurement m = worker.measure({.problem = {"rms_norm", {{"tokens", 8}, {"hidden", 32}}, DType::fp32},
                                        .options = {.min_samples = 6, .max_time = 0.01},
                                        .variant = "host_naive",
                                        .config = {}},
                                       deadline);
  EXPECT_EQ(m.status, Status::ok) << m.detail;
  EXPECT_GT(worker.facts().read_gb_per_s, 0.1);
  EXPECT_EQ(load_device_file(file, low)->read_gb_per_s, worker.facts().read_gb_per_s);
}

TEST_F(Worker, PeaksOfAnotherCardAreMeasuredAgain) {
  const auto file = std::filesystem::path(::testing::TempDir()) / "card_device.json";
  TuneOptions options;
  options.program = WARPTUNE_PROGRAM;
  DeviceWorker worker(options, {"host"});
  DeviceFacts other = worker.facts();
  other.id = "another card";
  other.read_gb_per_s = 1e-9;
  save_device_file(file, other);
  worker.know_peaks(file);
  EXPECT_GT(worker.facts().read_gb_per_s, 0.1);
  EXPECT_EQ(load_card_file(file, worker.facts())->read_gb_per_s, worker.facts().read_gb_per_s);
  EXPECT_FALSE(load_card_file(file, other));
}

/// A program that says hello as a worker and then answers each job with these lines; of several ranks all but
/// the first with the others.
std::filesystem::path fake_worker(const std::string& name, const std::string& answer,
                                  const std::string& of_others = "") {
  auto hello = to_json(DeviceFacts{.name = "host", .id = "host", .arch = "x86_64"});
  hello["type"] = "hello";
  const auto path = std::filesystem::path(::testing::TempDir()) / name;
  std::ofstream(path) << "#!/bin/sh\ncat <<'END'\n"
                      << hello.dump()
                      << "\nEND\nwhile read -r job; do [ $WARPTUNE_RANK = 0 ] && cat <<'END'\n"
                      << answer << "\nEND\n[ $WARPTUNE_RANK = 0 ] || cat <<'END'\n"
                      << of_others << "\nEND\ndone\n";
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  return path;
}

std::string result_of(const Measurement& measurement) {
  auto json = to_json(measurement);
  json["type"] = "result";
  return json.dump();
}
std::string result_of(double us) { return result_of(Measurement{.time_us = us}); }

const Job kJob{.problem = {"rms_norm", {{"tokens", 8}, {"hidden", 32}}, DType::fp32},
               .options = {},
               .variant = "host_naive",
               .config = {}};

TEST(WorkerProtocol, LinesThatALibraryPrintsAreNoAnswers) {
  WorkerGroup worker(fake_worker("chatty", "cuBLAS says hi\n42\nnull\n[]\n{}\n{\"type\":1}\n" + result_of(7)),
                     {"host"});
  for (int i = 0; i < 3; ++i) {
    const Measurement m = worker.run(kJob, 60);
    EXPECT_EQ(m.status, Status::ok) << m.detail;
    EXPECT_EQ(m.time_us, 7);
    EXPECT_FALSE(worker.fresh()) << "the worker stays";
  }
}

TEST(WorkerProtocol, AMalformedAnswerIsACrashAndTheNextJobGetsANewWorker) {
  for (const std::string& answer :
       {std::string(R"({"type":"result"})"), std::string(R"({"type":"result","lost":3,"peaks":4})"),
        std::string(R"({"type":"hello"})"), R"({"type":"error","message":5})" + ('\n' + result_of(7))}) {
    WorkerGroup worker(fake_worker("broken", answer), {"host"});
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(worker.run(kJob, 60).status, Status::crash) << answer;
      EXPECT_TRUE(worker.fresh()) << answer;
    }
  }
}

TEST(WorkerProtocol, FinalistsThatAreNotThoseOfTheJobAreRefused) {
  WorkerGroup worker(fake_worker("few", R"({"type":"finalists","times":[]})"), {"host"});
  EXPECT_THROW(
      worker.run(FinalistsJob{.problem = kJob.problem, .options = {}, .finalists = {{"host_naive", {}}}}, 60),
      ProtocolError);
  EXPECT_TRUE(worker.fresh());
}

TEST(WorkerRanks, TheWorstStatusOfAllRanksCounts) {
  const std::string good = result_of(7),
                    bad = result_of({.status = Status::resource, .detail = "too little memory"});
  const auto run = [](const std::string& first, const std::string& second) {
    return WorkerGroup(fake_worker("ranks", first, second), {"host", "host"}).run(kJob, 60);
  };
  EXPECT_EQ(run(good, good).time_us, 7);
  EXPECT_EQ(run(good, bad).status, Status::resource);
  EXPECT_EQ(run(good, bad).detail, "rank 1: too little memory");
  EXPECT_EQ(run(bad, good).detail, "rank 0: too little memory");
  EXPECT_EQ(run(bad, bad).detail, "too little memory");
  const Measurement broken = run(good, R"({"type":"result"})");
  EXPECT_EQ(broken.status, Status::crash);
  EXPECT_EQ(broken.detail.find("rank 1: a message has no"), 0u) << broken.detail;
}

TEST(WorkerRanks, ARankThatFailsAloneIsNoTimeout) {
  WorkerGroup worker(
      fake_worker("waits", "", result_of({.status = Status::resource, .detail = "too little memory"})),
      {"host", "host"});
  const Measurement m = worker.run(kJob, 600);
  EXPECT_EQ(m.status, Status::resource);
  EXPECT_EQ(m.detail, "rank 1: too little memory");
  EXPECT_TRUE(worker.fresh());
}

TEST(WorkerRanks, ARankWithoutAnAnswerIsNamed) {
  WorkerGroup worker(fake_worker("late", result_of(7)), {"host", "host"});
  const Measurement m = worker.run(kJob, 0.5);
  EXPECT_EQ(m.status, Status::timeout);
  EXPECT_EQ(m.detail, "rank 1: no result within 0.5 seconds");
}

}  // namespace
}  // namespace warptune
