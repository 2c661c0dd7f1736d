#!/usr/bin/env bash
# Verifies and times the decode step as one persistent kernel on two small models (persistent_step.cu explains how).
#   scripts/evidence/persistent_step.sh --out results/h200/evidence [--program P]
# --program: a built persistent_step; without it nvcc builds one (a minute). Takes 10 seconds on an H200.
# Bar: the outputs are right, and the best row of each model takes less time than the captured graph of `generate`.
# persistent_step.csv has a line per model, mode (exchange; stream_only: no waits, the bound of the other; profiled) and L2
# prefetch in tiles of 8 KB: step_us, the roofline floor_us, pct_of_floor.
# persistent_step.log has the distances from the reference and, per op, where warp 0 of the blocks spends its time.
set -uo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
out=$root/out/evidence program=''
while (($#)); do
  case $1 in
    --out) out=$2 ;; --program) program=$2 ;;
    *) echo "persistent_step: '$1' is not an option" >&2; exit 2 ;;
  esac
  shift 2
done
mkdir -p "$out" || exit 2
if [ -z "$program" ]; then
  PATH=$PATH:/usr/local/cuda/bin
  command -v nvcc > /dev/null || { echo "persistent_step: nvcc is not on this machine" >&2; exit 2; }
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  program=$work/persistent_step
  nvcc -std=c++20 -O3 -arch=sm_90a -Xcompiler -Wall,-Wextra,-Wno-missing-field-initializers -I"$root" \
    -o "$program" "$root/scripts/evidence/persistent_step.cu" || exit 2
fi
timeout 60 "$program" > "$out/persistent_step.csv" 2> "$out/persistent_step.log"
status=$?
grep -E 'WRONG|stuck|persistent_step:' "$out/persistent_step.log" | head -20
exit $status
