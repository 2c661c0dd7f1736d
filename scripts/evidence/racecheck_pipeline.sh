#!/usr/bin/env bash
# Shows on a kernel of 40 lines (racecheck_pipeline.cu) what racecheck understands of the K/V pipeline.
#   scripts/evidence/racecheck_pipeline.sh --out results/h200/evidence [--program P]
# --program: a built racecheck_pipeline; without it nvcc builds one. racecheck_pipeline.csv has a line per case: hazards
# reported, wrong sums. Bar: the case in which racecheck sees all barriers has no hazard, the one with a race has some,
# and no sum of the correct cases is wrong.
set -uo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
out=$root/out/evidence program=''
while (($#)); do
  case $1 in
    --out) out=$2 ;; --program) program=$2 ;;
    *) echo "racecheck_pipeline: '$1' is not an option" >&2; exit 2 ;;
  esac
  shift 2
done
PATH=$PATH:/usr/local/cuda/bin
command -v compute-sanitizer > /dev/null || { echo "racecheck_pipeline: compute-sanitizer is not here" >&2; exit 2; }
mkdir -p "$out" || exit 2
if [ -z "$program" ]; then
  command -v nvcc > /dev/null || { echo "racecheck_pipeline: nvcc is not on this machine" >&2; exit 2; }
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  program=$work/racecheck_pipeline
  nvcc -std=c++20 -gencode arch=compute_90a,code=sm_90a -I"$root" -o "$program" \
    "$root/scripts/evidence/racecheck_pipeline.cu" || exit 2
fi
cases=(one_lane_arrives all_lanes_arrive one_lane_arrives_with_proxy_fence plain_stores race)
echo case,hazards,wrong_sums > "$out/racecheck_pipeline.csv"
said='' bad=0
for i in "${!cases[@]}"; do
  wrong=$("$program" "$i") || bad=1
  hazards=$(compute-sanitizer --tool racecheck "$program" "$i" 2>&1 |
    sed -n 's/.*RACECHECK SUMMARY: \([0-9]*\) hazard.*/\1/p')
  echo "${cases[i]},${hazards:-none},$wrong" >> "$out/racecheck_pipeline.csv"
  said+=" ${cases[i]} ${hazards:-none},"
  [ "${cases[i]}" != all_lanes_arrive ] || [ "$hazards" = 0 ] || bad=1
  [ "${cases[i]}" != race ] || ((hazards > 0)) || bad=1
done
echo "racecheck_pipeline: $( ((bad)) && echo 'NOT MET' || echo met): hazards:${said%,}"
exit $bad
