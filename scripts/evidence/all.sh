#!/usr/bin/env bash
# Measures all evidence of docs/measuring.md, one after another. Continues after a failure and ends with a table.
#   scripts/evidence/all.sh --out results/h200/evidence [--program P] [--tests DIR] [--without-nvtx P] [--wisdom W]
#                           [--device D] [--only "NAME..."]
# --tests: the folder of measure_test; --without-nvtx: the program of the preset no-nvtx, for nvtx.csv; --only: of
# spin_ladder ncu_agreement aa_study busy nvtx profile ring_stream racecheck_pipeline regress. Exits with 1 if a bar is
# not met or nothing could be measured. Takes about 50 minutes on an H200, most of it aa_study; each other step takes
# less than three.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd) root=$(cd "$(dirname "$0")/../.." && pwd)
out=$root/out/evidence program=${WARPTUNE:-$root/build/warptune} tests=$root/build/tests without='' device=auto
wisdom=$root/results/h200/wisdom.json
only="spin_ladder ncu_agreement aa_study busy nvtx profile ring_stream racecheck_pipeline regress"
while (($#)); do
  case $1 in
    --out) out=$2 ;; --program) program=$2 ;; --tests) tests=$2 ;; --without-nvtx) without=$2 ;;
    --wisdom) wisdom=$2 ;; --device) device=$2 ;; --only) only=$2 ;;
    *) echo "evidence: '$1' is not an option" >&2; exit 2 ;;
  esac
  shift 2
done
mkdir -p "$out" || exit 2
winners=(--program "$program" --out "$out" --device "$device" --wisdom "$wisdom")

# Records a baseline of the winners of decoding one sequence (PROBLEM chooses others) and compares with it at once.
regress() {
  export WARPTUNE=$program DEVICE=$device OUT=$out/regress BASELINES=$out/baseline
  export PROBLEM=${PROBLEM-"(tokens|batch)=1,"}
  "$root/scripts/regress.sh" --record "$wisdom" > /dev/null || return 2
  "$root/scripts/regress.sh" > "$out/regress.txt"
  local code=$?
  echo "regress: $( ((code)) && echo 'NOT MET' || echo met): $(tail -n 1 "$out/regress.txt")"
  return $code
}
step() {
  case $1 in
    spin_ladder) "$here/spin_ladder.sh" --out "$out" --tests "$tests" ;;
    busy) "$here/busy.py" --program "$program" --out "$out" --device "$device" ;;
    nvtx)
      [ -n "$without" ] || { echo "nvtx: --without-nvtx is not given" >&2; return 2; }
      "$here/nvtx.py" "${winners[@]}" --without "$without"
      ;;
    ncu_agreement | aa_study) "$here/$1.py" "${winners[@]}" ;;
    profile) "$here/profile.sh" "${winners[@]}" ;;
    ring_stream | racecheck_pipeline) "$here/$1.sh" --out "$out" ;;
    regress) regress ;;
    *) echo "evidence: there is no '$1'" >&2; return 2 ;;
  esac
}

table='' failed=0
for name in $only; do
  start=$SECONDS
  said=$(step "$name" 2>&1)
  code=$?
  echo "$said"
  ((code)) && failed=1
  case $code in 0) state=met ;; 1) state='NOT MET' ;; *) state='no result' ;; esac
  table+=$(printf '%-14s %-9s %4d s  %s' "$name" "$state" $((SECONDS - start)) "$(tail -n 1 <<< "$said")")$'\n'
done
printf '\n%s' "$table" | tee "$out/summary.txt"
exit $failed
