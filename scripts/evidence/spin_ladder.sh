#!/usr/bin/env bash
# The spin ladder of tests/measure/spin_ladder_test.cpp: kernels that wait for 1, 2, 4 and 8 us, timed as rows.
#   scripts/evidence/spin_ladder.sh --out results/h200/evidence [--tests DIR]
# Bar: each is recovered within 5 %, less the time of a graph node. spin_ladder.csv has a line per rung: device, spin_us
# (asked), in_kernel_us (waited, by the SM's clock), time_us with its interval ci_low_us and ci_high_us, node_us (the row
# of a kernel that waits for nothing), recovered_us (time less node), error_pct, sm_clock_mhz. Takes seconds.
set -uo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
out=$root/out/evidence tests=${WARPTUNE_TESTS:-$root/build/tests}
while (($#)); do
  case $1 in
    --out) out=$2 ;; --tests) tests=$2 ;;
    *) echo "spin_ladder: '$1' is no option" >&2; exit 2 ;;
  esac
  shift 2
done
[ -x "$tests/measure_test" ] || { echo "spin_ladder: $tests/measure_test is not built" >&2; exit 2; }
mkdir -p "$out" || exit 2
rm -f "$out/spin_ladder.csv"
said=$(WARPTUNE_EVIDENCE=$out "$tests/measure_test" --gtest_filter='GpuSpinLadder.*' 2>&1)
code=$?
grep ' in the kernel, row ' <<< "$said"
[ -f "$out/spin_ladder.csv" ] || { echo "spin_ladder: nothing was measured: $(tail -n 3 <<< "$said")" >&2; exit 2; }
if ((code)); then
  grep -A 4 Failure <<< "$said"
  echo "spin_ladder: NOT MET: not every rung is recovered within 5 %"
  exit 1
fi
echo "spin_ladder: met: every rung is recovered within 5 %"
