#include "harness/tune/worker.h"

#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>
#include <optional>
#include <vector>

#include "harness/core/error.h"
#include "harness/core/line_channel.h"
#include "harness/core/rank_group.h"
#include "harness/core/rank_identity.h"
#include "harness/core/text.h"
#include "harness/llama/tensor_parallel.h"
#include "harness/measure/tuning_ranges.h"
#include "harness/tune/protocol.h"
#include "harness/tune/sweep_models.h"
#ifdef __linux__
#include <sys/prctl.h>
#endif

namespace warptune {
using Json = nlohmann::json;
namespace {

/// Allocates until the process fails; its memory limit protects the machine.
[[noreturn]] void use_all_memory() {
  const rlimit limit{1ull << 30, 1ull << 30};
  ::setrlimit(RLIMIT_AS, &limit);
  std::vector<std::unique_ptr<char[]>> blocks;
  for (;;) blocks.push_back(std::make_unique<char[]>(64 << 20));
}

void misbehave(const std::string& kind) {
  volatile std::uintptr_t illegal = 8;
  if (kind == "segv") *reinterpret_cast<volatile int*>(illegal) = 1;
  if (kind == "abort") std::abort();
  if (kind == "exit0") std::exit(0);
  if (kind == "throw") throw std::runtime_error("the device is lost");
  if (kind == "memory") use_all_memory();
  if (kind == "stop") ::raise(SIGSTOP);
  if (kind == "kill") ::raise(SIGKILL);
  for (volatile unsigned spin = 0; kind == "loop";) spin = spin + 1;
}

int rank_of(const Device& device) { return device.group() ? device.group()->rank() : 0; }

/// The faults that tests inject into work with this name.
void inject_fault(const Device& device, const std::string& work) {
  const char* given = std::getenv("WARPTUNE_WORKER_FAULT");
  if (!given) return;
  const std::string rank = std::to_string(rank_of(device));
  for (const std::string& fault : split(given, ';')) {
    const auto colon = fault.find(':'), at = fault.find('@');
    if (colon == std::string::npos || work.find(fault.substr(colon + 1)) == std::string::npos) continue;
    const bool is_of_a_rank = at < colon;
    if (!is_of_a_rank || fault.substr(at + 1, colon - at - 1) == rank)
      misbehave(fault.substr(0, std::min(at, colon)));
  }
}

/// The group that the parent has put this process in; null where it is alone.
std::shared_ptr<RankGroup> joined_group() {
  const auto identity = take_rank_identity(1);
  if (!identity || identity->ranks == 1) return nullptr;
  return std::make_shared<RankGroup>(identity->group, identity->rank, identity->ranks);
}

bool same_options(const BenchOptions& a, const BenchOptions& b) {
  return a.cache == b.cache && a.max_rel_ci == b.max_rel_ci && a.min_samples == b.min_samples &&
         a.max_time == b.max_time && a.duty_cycle == b.duty_cycle && a.seed == b.seed && a.inputs == b.inputs;
}

/// The reference of a user's op does not run: no configuration of the op can be verified.
struct BadReference : InputError {
  using InputError::InputError;
};

/// The bench of the current problem. Another problem replaces it: two may not fit the memory.
class Benches {
 public:
  Benches(const OpTable& ops, Device& device) : ops_(ops), device_(device) {}

  Measurement run(const Job& job) {
    inject_fault(device_, job.problem.key() + " " + job.config.str());
    const NvtxRange range = problem_range(job.problem);
    open(job.problem, job.options);
    return failure_ ? *failure_
                    : bench_->run(ops_.find(job.problem.op).variant(job.variant), job.config, job.best_us,
                                  job.sample_us);
  }

  std::vector<FinalistTimes> run(const FinalistsJob& job) {
    std::vector<Finalist> finalists;
    for (const auto& entry : job.finalists) {
      inject_fault(device_, job.problem.key() + " finalist " + entry.config.str());
      finalists.push_back({&ops_.find(job.problem.op).variant(entry.variant), entry.config});
    }
    const NvtxRange range = problem_range(job.problem);
    open(job.problem, job.options);
    if (failure_) return std::vector<FinalistTimes>(finalists.size(), {*failure_, *failure_, *failure_});
    return bench_->time_interleaved(finalists, job.rounds, job.extras);
  }

  void clear() {
    bench_.reset();
    failure_.reset();
  }
  StageTimes take_times() { return bench_ ? bench_->take_times() : StageTimes(); }

 private:
  void open(const Problem& problem, const BenchOptions& options) {
    if (!(problem == problem_ && same_options(options, options_))) {
      clear();
      problem_ = problem;
      options_ = options;
    }
    if (!bench_ && !failure_) {
      const NvtxRange stage(tuning_stages().set_up);
      try {
        bench_ = std::make_unique<Bench>(device_, ops_.find(problem.op), problem, options);
      } catch (const ResourceError& e) {
        failure_ = Measurement{.status = Status::resource, .detail = e.what()};
      } catch (const InputError& e) {
        throw BadReference(e.what());
      } catch (const std::bad_alloc&) {
        failure_ =
            Measurement{.status = Status::resource, .detail = "the host memory does not hold the problem"};
      }
    }
  }

  const OpTable& ops_;
  Device& device_;
  Problem problem_;
  BenchOptions options_;
  std::unique_ptr<Bench> bench_;
  std::optional<Measurement> failure_;
};

/// The model whose step is timed. Another one replaces it.
class Steps {
 public:
  Steps(const OpTable& ops, Device& device) : ops_(ops), device_(device) {}

  StepTimes run(const StepJob& job) {
    inject_fault(device_, "step " + job.candidate.str());
    Json wanted = to_json(StepJob{.model = job.model, .spec = job.spec, .incumbent = {}, .candidate = {}});
    if (!bench_ || wanted != open_) {
      clear();
      StepSpec spec = job.spec;
      const ModelConfig part =
          split_over_ranks(model_named(job.model), rank_of(device_), job.spec.model.shard.ranks);
      spec.model = in_format(part, job.spec.model.weights);
      try {
        bench_ = std::make_unique<StepBench>(ops_, device_, std::move(spec));
      } catch (const ResourceError& e) {
        const Measurement none{.status = Status::resource, .detail = e.what()};
        return {.incumbent = none, .candidate = none};
      }
      open_ = std::move(wanted);
    }
    StepTimes times = bench_->compare(job.incumbent, job.candidate, job.rounds, job.slow);
    if (times.candidate.status == Status::wrong_result) clear();  // it may have changed weights or KV cache
    return times;
  }

  void clear() { bench_.reset(); }
  StageTimes take_times() { return bench_ ? bench_->take_times() : StageTimes(); }

 private:
  const OpTable& ops_;
  Device& device_;
  Json open_;
  std::unique_ptr<StepBench> bench_;
};

Json tagged(const char* type, Json json) {
  json["type"] = type;
  return json;
}

/// Adds to an answer how long its stages took, and the measured peaks if they rose since the last one.
class News {
 public:
  explicit News(const Device& device) : device_(device) {}
  Json with(Json answer, const StageTimes& times) {
    answer["stages"] = to_json(times);
    Json now = to_json(device_.facts());
    if (now != told_) answer["peaks"] = now;
    told_ = std::move(now);
    return answer;
  }
  void told() { told_ = to_json(device_.facts()); }

 private:
  const Device& device_;
  Json told_ = to_json(device_.facts());
};

Json error_of(const std::exception& e, bool input) {
  return {{"type", "error"}, {"input", input}, {"message", e.what()}};
}

/// The CUDA context may be lost: reports the reason and ends, so that a new process starts.
[[noreturn]] void end_after(LineChannel& lines, const Measurement& measurement) {
  Json json = to_json(measurement);
  json["lost"] = true;
  lines.write(tagged("result", std::move(json)));
  std::_Exit(3);
}

}  // namespace

int run_worker(const OpTable& ops, const std::string& which, int in, int out) {
#ifdef __linux__
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // never outlives the program that started it
#endif
  LineChannel lines(in, out);
  std::unique_ptr<Device> device;
  try {
    device = open_device(which, joined_group());
    const bool is_first_rank = rank_of(*device) == 0;
    lines.write(tagged("hello", to_json(device->facts())));
    Benches benches(ops, *device);
    Steps steps(ops, *device);
    News news(*device);
    const auto answer = [&](const char* type, Json json, auto& of) {
      lines.write(tagged(type, news.with(std::move(json), of.take_times())));
    };
    while (const auto line = lines.read()) {
      const auto read = message_of(*line);
      if (!read) throw ProtocolError("a line to the worker is not a message");
      const Json& message = *read;
      const std::string type = message.at("type");
      if (type == "measure_peaks") {
        // By a device that waits for no other rank.
        if (is_first_rank) device->set_peaks(measure_peaks(*open_device(which)));
        lines.write(tagged("facts", to_json(device->facts())));
        news.told();
      } else if (type == "measure_launch_floors") {
        lines.write(tagged("launch_floors", to_json(is_first_rank ? measure_launch_floors(*open_device(which))
                                                                  : LaunchFloors())));
      } else if (type == "set_peaks") {
        device->set_peaks(facts_of(message));
        news.told();
      } else {
        try {
          if (type == "step")
            benches.clear();  // the memory of both may be too much
          else
            steps.clear();
          if (type == "step")
            answer("step", to_json(steps.run(step_job_of(message))), steps);
          else if (type == "finalists")
            answer("finalists", to_json(benches.run(finalists_job_of(message))), benches);
          else
            answer("result", to_json(benches.run(job_of(message))), benches);
        } catch (const BadReference&) {
          throw;
        } catch (const RankLost&) {
          throw;
        } catch (const std::bad_alloc&) {
          end_after(lines, {.status = Status::resource, .detail = "the host is out of memory"});
        } catch (const std::exception& e) {
          end_after(lines, {.status = Status::launch_error, .detail = e.what()});
        }
      }
    }
    return 0;
  } catch (const RankLost&) {  // the parent knows why, and ends this process too
    while (lines.read()) continue;
    return 1;
  } catch (const InputError& e) {
    lines.write(error_of(e, true));
    return 2;
  } catch (const std::exception& e) {
    lines.write(error_of(e, false));
    return 1;
  }
}

}  // namespace warptune
