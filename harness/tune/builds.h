#pragma once
// The code of a problem's candidates: what compiles ahead, and what each candidate takes.
#include <map>

#include "harness/tune/compile_lanes.h"
#include "harness/tune/plan.h"

namespace warptune {

class Builds {
 public:
  /// `seconds`: until a candidate that still compiles is given up. All must outlive it.
  Builds(const PlannedProblem& planned, CompileLanes& lanes, double seconds)
      : planned_(&planned), lanes_(&lanes), seconds_(seconds) {}

  /// Begins to compile a candidate (an index into the problem's), where it has kernels of its own.
  void begin(std::size_t candidate);
  /// Waits for a candidate that was begun; one without kernels is ok and takes nothing. They are first taken
  /// in the order in which they were begun.
  const CompileResult& take(std::size_t candidate);

 private:
  const PlannedProblem* planned_;
  CompileLanes* lanes_;
  double seconds_;
  std::map<std::size_t, std::size_t> tasks_;
  std::map<std::size_t, CompileResult> results_;
};

}  // namespace warptune
