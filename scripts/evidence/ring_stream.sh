#!/usr/bin/env bash
# Times the bulk-copy pipelines of decode attention without arithmetic, and the kernels themselves, on five long rows
# (ring_stream.cu explains how).
#   scripts/evidence/ring_stream.sh --out results/h200/evidence [--program P]
# --program: a built ring_stream; without it nvcc builds one (half a minute). Takes 10 seconds on an H200.
# Bar: in a chain of launches, as cold rows are timed, no kernel takes more than 3 % longer than its pipelines alone.
# ring_stream.csv has a line per row, way (what: ranges, paced, queue, kernel) and launches per sample: bytes of K and
# V; blocks, warps of each, bytes of a tile of K (V has as many), stages; time_us per launch with its interval ci_low_us
# and ci_high_us; gb_per_s; over_ranges, the time over that of ranges; for single launches the us from the start of the
# first block until the first, the median and the last SM has read its work tile.
set -uo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
out=$root/out/evidence program=''
while (($#)); do
  case $1 in
    --out) out=$2 ;; --program) program=$2 ;;
    *) echo "ring_stream: '$1' is not an option" >&2; exit 2 ;;
  esac
  shift 2
done
mkdir -p "$out" || exit 2
if [ -z "$program" ]; then
  PATH=$PATH:/usr/local/cuda/bin
  command -v nvcc > /dev/null || { echo "ring_stream: nvcc is not on this machine" >&2; exit 2; }
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  program=$work/ring_stream
  nvcc -std=c++20 -O3 -arch=sm_90a -Xcompiler -Wall,-Wextra,-Wno-missing-field-initializers -I"$root" \
    -o "$program" "$root/scripts/evidence/ring_stream.cu" "$root/harness/measure/statistics.cpp" ||
    exit 2
fi
"$program" > "$out/ring_stream.csv" || exit 2
awk -F, '
  NR == 1 { for (i = 1; i <= NF; ++i) at[$i] = i; next }
  $at["launches"] > 1 && $at["what"] == "kernel" {
    percent = 100 * ($at["over_ranges"] - 1)
    missed = missed || percent > 3
    said = said sprintf("%s%s %+.1f %%", said ? ", " : "", $at["row"], percent)
  }
  END {
    print "ring_stream: " (missed ? "NOT MET" : "met") ": kernels over their rings alone: " said
    exit missed
  }' "$out/ring_stream.csv"
