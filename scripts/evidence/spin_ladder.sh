#!/usr/bin/env bash
# The GPU tests of tests/measure/spin_ladder_test.cpp: kernels that wait for 1, 2, 4 and 8 us, timed as rows, and a
# GEMV followed by a kernel that waits for 3 % of its time, compared with the same pair without the wait.
#   scripts/evidence/spin_ladder.sh --out results/h200/evidence [--tests DIR]
# Bars: each wait is recovered within 5 %, less the time of a graph node; 19 of 20 slowdowns are SLOWER, and at most one
# of 20 equal pairs raises an alarm. Takes half a minute.
# spin_ladder.csv has a line per rung: device, spin_us (asked), in_kernel_us (waited, by the SM's clock), time_us with
# its interval ci_low_us and ci_high_us, node_us (the first rung's row less its wait), recovered_us (time less node),
# error_pct, sm_clock_mhz; rungs below 1 us are for information.
# slowdown.csv has a line per pair: base_us; again_us, again_pct and the verdict of an equal run; slowed_us, slowed_pct
# and the verdict of the slower.
set -uo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
out=$root/out/evidence tests=${WARPTUNE_TESTS:-$root/build/tests}
while (($#)); do
  case $1 in
    --out) out=$2 ;; --tests) tests=$2 ;;
    *) echo "spin_ladder: '$1' is not an option" >&2; exit 2 ;;
  esac
  shift 2
done
[ -x "$tests/measure_test" ] || { echo "spin_ladder: $tests/measure_test is not built" >&2; exit 2; }
mkdir -p "$out" || exit 2
rm -f "$out/spin_ladder.csv" "$out/slowdown.csv"
said=$(WARPTUNE_EVIDENCE=$out "$tests/measure_test" --gtest_filter='GpuSpinLadder.*' 2>&1)
code=$?
grep -E ' in the kernel, row | slowdowns of 3 % ' <<< "$said"
[ -f "$out/spin_ladder.csv" ] || { echo "spin_ladder: nothing was measured: $(tail -n 3 <<< "$said")" >&2; exit 2; }
if ((code)); then
  grep -A 4 Failure <<< "$said"
  echo "spin_ladder: NOT MET: failed were $(grep -E '^\[  FAILED  \] Gpu.*ms\)' <<< "$said" | cut -d. -f2 | tr '\n' ' ')"
  exit 1
fi
echo "spin_ladder: met: every rung is recovered within 5 %, and $(grep ' slowdowns of 3 % ' <<< "$said")"
