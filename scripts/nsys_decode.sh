#!/usr/bin/env bash
# Where the time of a decode step goes: records steps in steady state with nsys and prints the time per op.
#   scripts/nsys_decode.sh REPORT [arguments of `warptune decode`]
# Records the last PROFILE_STEPS (default 16) steps, kernel by kernel inside the CUDA graphs; the steps before are the
# warm-up (--steps, default 32, is the sum). Leaves REPORT.nsys-rep for the timeline, REPORT.sqlite, which
# scripts/nsys_ops.py reads again, and REPORT.csv, the row of a run that nsys slowed down.
# NSYS names nsys; else it is taken from the PATH, the CUDA Toolkit or the newest below /opt/nvidia. Debian 12 has it as
# nsight-systems (non-free), the CUDA repository as nsight-systems-YEAR.N.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
[ $# -ge 1 ] || { echo "usage: $0 REPORT [arguments of warptune decode]" >&2; exit 2; }

find_nsys() {
  if [ -n "${NSYS:-}" ]; then
    echo "$NSYS"
  elif ! command -v nsys; then
    find /usr/local/cuda/bin /opt/nvidia/nsight-systems* -path '*bin/nsys' 2> /dev/null | sort -V | tail -n 1
  fi
}
nsys=$(find_nsys)
[ -x "$nsys" ] || {
  echo "nsys_decode: ${nsys:-nsys} is not a program on this machine; NSYS=PATH names it" >&2
  exit 2
}

report=$1
shift
"$nsys" profile --trace=cuda,nvtx --cuda-graph-trace=node --capture-range=cudaProfilerApi --capture-range-end=stop \
  --force-overwrite=true --output "$report" \
  "${WARPTUNE:-$root/build/warptune}" decode --profile-steps "${PROFILE_STEPS:-16}" --csv "$report.csv" "$@"
"$nsys" export --type sqlite --quiet=true --force-overwrite=true --output "$report.sqlite" "$report.nsys-rep"
"$root/scripts/nsys_ops.py" "$report.sqlite"
