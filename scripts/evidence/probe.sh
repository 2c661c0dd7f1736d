#!/usr/bin/env bash
# Builds one of the programs NAME.cu of this folder and runs it on an sm_90a GPU; NAME.cu explains the columns.
#   scripts/evidence/probe.sh copy_queue|layer_chain|persistent_step|weight_stream --out results/h200/evidence
# OUT/NAME.csv has what it prints, OUT/NAME.log the rest. The build takes up to a minute, a run 10 seconds. Exits as the
# program does: persistent_step with 1 where an output is wrong or the captured graph is faster.
set -uo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
if [[ $# != 3 || ! $1 =~ ^(copy_queue|layer_chain|persistent_step|weight_stream)$ || $2 != --out ]]; then
  sed -n '2,3s/^# //p' "$0" >&2
  exit 2
fi
name=$1 out=$3
mkdir -p "$out" || exit 2
PATH=$PATH:/usr/local/cuda/bin
command -v nvcc > /dev/null || { echo "$name: nvcc is not on this machine" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
nvcc -std=c++20 -O3 -arch=sm_90a -diag-suppress 1886 -Xcompiler -Wall,-Wextra,-Wno-missing-field-initializers \
  -I"$root" -o "$work/$name" "$root/scripts/evidence/$name.cu" || exit 2
timeout 60 "$work/$name" > "$work/csv" 2> "$out/$name.log"
status=$?
if [[ -s $work/csv ]]; then mv "$work/csv" "$out/$name.csv"; fi
grep -E "WRONG|stuck|$name:" "$out/$name.log" | head -20
exit $status
