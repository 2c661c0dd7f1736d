#!/usr/bin/env bash
# The regression gate: times a baseline's winners on this machine, compares, and times rows that seem slower again.
# Exit codes are those of `warptune compare`.
#   scripts/regress.sh [--history DIR] [BASELINE]
#                                            BASELINE: results/baseline/<device> (wisdom.json, regress.csv), by default
#                                            the one of this device; DIR keeps the rows of each run (warptune history)
#   scripts/regress.sh --record WISDOM       makes the baseline of this machine from a wisdom file: its steps, and of each
#                                            kernel the three problems that take longest; says what it does not watch
# Environment: WARPTUNE (the program), DEVICE (auto), RUNS (3), MIN_EFFECT (2%), OUT (out/regress), BASELINES
# (results/baseline), PROBLEM (a regular expression; only winners of matching problems, also with --record),
# MODELS (folders of checkpoints whose steps the wisdom has; presets need none),
# BASE_PROGRAM (the warptune of the baseline: rows that seem slower are timed with both programs interleaved).
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
warptune=${WARPTUNE:-$root/build/warptune} device=${DEVICE:-auto} out=${OUT:-$root/out/regress}
baselines=${BASELINES:-$root/results/baseline}
models=()
for model in ${MODELS:-}; do models+=(--model "$model"); done
fail() { echo "regress: $1" >&2; exit 2; }
[ -x "$warptune" ] || fail "$warptune is not built (cmake --preset release && cmake --build build)"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
history=()
if [ "${1:-}" = --history ]; then
  [ -n "${2:-}" ] || fail "--history needs a folder"
  history=(--history "$2")
  shift 2
fi
measure() {  # the winners of wisdom $1; prints the folder of their rows
  "$warptune" rerun "$1" --runs "${RUNS:-3}" --problem "${PROBLEM:-}" --device "$device" --name regress \
    --out "$work" "${models[@]}" "${history[@]}" >&2 || true  # compare names the missing
  local found=("$work"/*/regress.csv)
  [ -f "${found[0]}" ] || fail "the winners of $1 could not be measured"
  dirname "${found[0]}"
}
if [ "${1:-}" = --record ]; then
  [ -f "${2:-}" ] || fail "--record needs a wisdom file"
  "$warptune" wisdom watch "$2" -o "$work/watched.json"
  rows=$(measure "$work/watched.json")
  baseline=$baselines/$(basename "$rows")
  mkdir -p "$baseline"
  cp "$rows"/regress.csv "$baseline/"
  # Only the medians of several runs are compared.
  if ((${RUNS:-3} == 1)); then cp "$rows"/regress.samples.csv "$baseline/"; else rm -f "$baseline"/regress.samples.csv; fi
  cp "$work/watched.json" "$baseline/wisdom.json"
  echo "regress: recorded $baseline"
  exit 0
fi
baseline=${1:-}
if [ -z "$baseline" ]; then
  found=("$baselines"/*/regress.csv)
  [ -f "${found[0]}" ] || fail "there is no baseline; make one with --record WISDOM"
  if [ ${#found[@]} -gt 1 ]; then  # that of the device
    name=$("$warptune" devices | awk -F '  +' -v on="$device" '/^[^ ]/ && (on == "auto" || on == $1) { print $2; exit }')
    mapfile -t found < <(awk -F, -v name="$name" 'FNR == 2 && $6 == name { print FILENAME }' "${found[@]}")
    [ ${#found[@]} = 1 ] || fail "$baselines has not one baseline of ${name:-$device}; name one, or make it with --record"
  fi
  baseline=$(dirname "${found[0]}")
fi
[ -f "$baseline/wisdom.json" ] && [ -f "$baseline/regress.csv" ] ||
  fail "$baseline holds no wisdom.json and regress.csv"
rows=$(measure "$baseline/wisdom.json")
mkdir -p "$out"
cp "$rows"/regress*.csv "$out/"
confirm=(--confirm "$baseline/wisdom.json" --device "$device" "${models[@]}")
[ -z "${BASE_PROGRAM:-}" ] || confirm+=(--base-program "$BASE_PROGRAM")
exec "$warptune" compare "$baseline/regress.csv" "$out/regress.csv" --min-effect "${MIN_EFFECT:-2%}" "${confirm[@]}"
