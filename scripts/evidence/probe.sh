#!/usr/bin/env bash
# Builds one of the programs NAME.cu of this folder and stores what it prints as OUT/NAME.csv.
#   scripts/evidence/probe.sh copy_queue|layer_chain --out results/h200/evidence
# Needs nvcc and an sm_90a GPU; the build takes half a minute, a run 5 seconds. NAME.cu explains the columns.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
if [[ $# != 3 || ! $1 =~ ^(copy_queue|layer_chain)$ || $2 != --out ]]; then
  sed -n '2,3s/^# //p' "$0" >&2
  exit 2
fi
PATH=$PATH:/usr/local/cuda/bin
command -v nvcc > /dev/null || { echo "probe: nvcc is not on this machine" >&2; exit 2; }
mkdir -p "$3"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
nvcc -std=c++20 -O3 -arch=sm_90a -diag-suppress 1886 -Xcompiler -Wall,-Wextra,-Wno-missing-field-initializers \
  -I"$root" -o "$work/$1" "$root/scripts/evidence/$1.cu"
timeout 60 "$work/$1" > "$work/$1.csv"
mv "$work/$1.csv" "$3/$1.csv"
