#pragma once
// Reference outputs of a model, and the allowed error of a run.
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "harness/core/dtype.h"
#include "harness/llama/model.h"

namespace warptune {

/// The file that scripts/make_golden.py writes.
struct Golden {
  std::vector<std::vector<int>> prompts;
  std::vector<std::vector<int>> tokens;  // [batch][steps + 1], the first follows the prompt
  std::vector<float> logits;             // [batch, steps + 1, vocab], of those tokens
  int vocab = 0;
  int steps() const { return static_cast<int>(tokens[0].size()) - 1; }
  std::span<const float> row(int sequence, int step) const {
    const auto at = (static_cast<std::size_t>(sequence) * tokens[0].size() + static_cast<std::size_t>(step)) *
                    static_cast<std::size_t>(vocab);
    return std::span(logits).subspan(at, static_cast<std::size_t>(vocab));
  }
};
/// Throws InputError.
Golden read_golden(const std::filesystem::path& file);

/// What logits are compared with: a reference whose own error does not count, or another run in the same
/// dtype, whose rounding errors are as large and independent.
enum class ComparedWith { reference, run };

/// The error of a run's logits against a reference, over all rows added.
class Agreement {
 public:
  /// fp32: max |difference| of every row <= 1e-3 of its max |logit|. 16 bit: relative L2 error over all rows
  /// <= 2e-2, and of each row at most twice that. The tokens must be equal if the reference's best logit
  /// leads the second by more than such errors explain. A quantized cache adds rounding noise of 1.5e-2
  /// (int8) or 5e-2 (fp8): independent noise on the bound of a 16-bit run, and the relative L2 bound of an
  /// fp32 run. Activations that are rounded to fp8 add as much as an fp8 cache. The relative L2 bound on two
  /// runs is sqrt(2) times as large.
  explicit Agreement(DType dtype, const KvFormat& kv = {}, ComparedWith with = ComparedWith::reference,
                     bool fp8_activations = false);
  void add(std::span<const float> got, std::span<const float> want, int sequence, int step);
  bool ok() const;
  /// Only the bounds of single rows: a run of one step has too few rows for their errors to average out.
  bool rows_ok() const { return failure_.empty(); }
  /// The largest relative L2 error of a row.
  double worst_row() const { return worst_l2_; }
  /// One sentence.
  std::string summary() const;

 private:
  double l2() const;
  double bound_;         // on the relative L2 error; 0: max |difference| is checked
  std::string failure_;  // the first bad row
  double worst_max_ = 0, worst_l2_ = 0;
  double error2_ = 0, want2_ = 0;
  int rows_ = 0, tokens_equal_ = 0, ties_ = 0;
};

/// Runs the model on the golden's prompts and tokens (teacher-forced).
Agreement check_golden(Model& model, const Golden& golden);
/// What check_against() compares: prefill and steps, or, where a reference's prefill would take too long,
/// only the steps, which the reference begins with the other model's KV cache.
enum class CheckScope { prefill_and_steps, steps };
/// Runs both models on the same prompts, feeding both the reference's tokens.
Agreement check_against(Model& model, Model& reference, std::span<const std::vector<int>> prompts, int steps,
                        CheckScope scope = CheckScope::prefill_and_steps);

}  // namespace warptune
