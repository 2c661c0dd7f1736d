#!/usr/bin/env bash
# Where the time of a decode step goes: records steps in steady state with nsys and prints the time per op.
#   scripts/nsys_decode.sh REPORT [arguments of `warptune decode`]
# Records the last PROFILE_STEPS (default 16) steps, kernel by kernel inside the CUDA graphs; the steps before are the
# warm-up (--steps, default 32, is the sum). Leaves REPORT.nsys-rep for the timeline, REPORT.sqlite, which
# scripts/nsys_ops.py reads again, and REPORT.csv, the row of a run that nsys slowed down.
# NSYS names nsys; else it is looked for in the PATH, the CUDA Toolkit (CUDA_HOME, default /usr/local/cuda) or the newest
# below NVIDIA_HOME (default /opt/nvidia), at last the one that Nsight Compute brings. Debian 12 has it as nsight-systems
# (non-free), the CUDA repository as nsight-systems-YEAR.N.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
[ $# -ge 1 ] || { echo "usage: $0 REPORT [arguments of warptune decode]" >&2; exit 2; }

find_nsys() {
  local toolkit=${CUDA_HOME:-/usr/local/cuda} nvidia=${NVIDIA_HOME:-/opt/nvidia}
  if [ -n "${NSYS:-}" ]; then
    echo "$NSYS"
  elif ! command -v nsys; then
    {  # find fails where one of its folders is missing
      find -H {"$nvidia","$toolkit"}/nsight-compute* -path '*/target-linux-x64/nsys' | sort -V || true
      find -H {"$toolkit","$nvidia"}/nsight-systems* "$toolkit/bin" -path '*bin/nsys' | sort -V || true
    } 2> /dev/null | tail -n 1
  fi
}
nsys=$(find_nsys)
[ -x "$nsys" ] || {
  echo "nsys_decode: ${nsys:-nsys} is not a program on this machine; NSYS=PATH names it" >&2
  exit 2
}

report=$1
shift
"$nsys" profile --trace=cuda,nvtx --sample=none --cpuctxsw=none --cuda-graph-trace=node --capture-range=cudaProfilerApi --capture-range-end=stop \
  --force-overwrite=true --output "$report" \
  "${WARPTUNE:-$root/build/warptune}" decode --profile-steps "${PROFILE_STEPS:-16}" --csv "$report.csv" "$@"
# An nsys without its host programs, as that of Nsight Compute, leaves a raw recording.
if [ ! -e "$report.nsys-rep" ] && [ -e "$report.qdstrm" ]; then
  importer=$(find "$(dirname "$nsys")/.." -name QdstrmImporter -print -quit)
  [ -n "$importer" ] || { echo "nsys_decode: no QdstrmImporter beside $nsys for $report.qdstrm" >&2; exit 2; }
  host=$(dirname "$importer")
  LD_LIBRARY_PATH=$host${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} "$importer" -i "$report.qdstrm" -o "$report.nsys-rep"
fi
"$nsys" export --type sqlite --quiet=true --force-overwrite=true --output "$report.sqlite" "$report.nsys-rep"
"$root/scripts/nsys_ops.py" "$report.sqlite"
