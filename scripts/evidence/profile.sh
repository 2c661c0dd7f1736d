#!/usr/bin/env bash
# Profiler sessions on a GPU: one kernel in the report, its names and sources found, counters of winners.
#   scripts/evidence/profile.sh --out results/h200/evidence [--program P] [--wisdom W] [--device D]
# Bars: the ncu report of each target holds exactly one kernel instance, named after its op; `warptune counters` reads
# all targets. profile.csv has a line per target: target, kernels, kernel, range (the NVTX range is in the report),
# source (so are lines of the kernel's source), nsys (a report was written; "missing" where there is no nsys).
# counters.csv is what `warptune counters` wrote, a row per kernel. Takes about a minute on an H200.
set -uo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
out=$root/out/evidence program=${WARPTUNE:-$root/build/warptune} wisdom=$root/results/h200/wisdom.json device=auto
while (($#)); do
  case $1 in
    --out) out=$2 ;; --program) program=$2 ;; --wisdom) wisdom=$2 ;; --device) device=$2 ;;
    *) echo "profile: '$1' is not an option" >&2; exit 2 ;;
  esac
  shift 2
done
PATH=$PATH:/usr/local/cuda/bin
command -v ncu > /dev/null || { echo "profile: ncu is not on this machine" >&2; exit 2; }
mkdir -p "$out" || exit 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$wisdom" "$work/wisdom.json" || exit 2

targets=$(PYTHONPATH="$root/scripts/evidence" python3 - "$wisdom" << 'PYTHON'
import sys
import evidence
for entry in evidence.winners(sys.argv[1], [r"^rms_norm tokens=1,hidden=4096", r"^linear tokens=1,in=4096,out=4096,"]):
    print(f"{entry['op']}/{entry['variant']} {evidence.problem_key(entry)}")
PYTHON
)
failed=0 number=0
echo "target,kernels,kernel,range,source,nsys" > "$out/profile.csv"
while read -r target key; do
  report=$work/report$((++number))
  session=("$program" profile "$key" --wisdom "$work/wisdom.json" --device "$device")
  "${session[@]}" --run ncu -o "$report" > "$report.log" 2>&1
  ncu --import "$report.ncu-rep" --csv --page raw --print-units base > "$report.csv" 2>> "$report.log"
  kernels=$(grep -c '^"[0-9]' "$report.csv")
  kernel=$(python3 -c 'import csv, re, sys
lines = [line for line in open(sys.argv[1]) if line.startswith("\"")]
print(next((re.split("[<(]", row["Kernel Name"])[0] for row in csv.DictReader(lines) if row["ID"]), "none"))' "$report.csv")
  range=no source=no nsys=missing
  grep -qaF "$target/$key" "$report.ncu-rep" 2>> "$report.log" && range=yes
  ncu --import "$report.ncu-rep" --page source --csv --print-source cuda,sass 2>> "$report.log" |
    grep -qF __global__ && source=yes
  if command -v nsys > /dev/null; then
    nsys=no
    "${session[@]}" --run nsys -o "$report" > "$report.nsys.log" 2>&1 && [ -s "$report.nsys-rep" ] && nsys=yes
  fi
  echo "$target,$kernels,\"$kernel\",$range,$source,$nsys" >> "$out/profile.csv"
  if [[ $kernels != 1 || $range != yes || $source != yes ||
        ($kernel != *${target%%/*}* && $kernel != *${target##*/}*) ]]; then
    failed=1
    echo "profile: $target: $kernels kernels, the first is $kernel; range: $range, source: $source" >&2
    tail -n 5 "$report.log" >&2
  fi
done <<< "$targets"

pattern='^(rms_norm.tokens=1,hidden=4096|linear.tokens=1,in=4096,out=4096,'
pattern+='|attention_decode.batch=1,q_heads=32,kv_heads=32,head_dim=128,context=4096,.*append=no)'
rm -f "$out/counters.csv"
"$program" counters --wisdom "$work/wisdom.json" --problem "$pattern" --device "$device" --csv "$out/counters.csv" \
  > "$work/counters.log" 2>&1 || { failed=1; tail -n 5 "$work/counters.log" >&2; }
lines=$(wc -l < "$out/counters.csv") read_rows=$((lines > 0 ? lines - 1 : 0))
((number > 0 && read_rows > 0)) || failed=1
((failed)) && state="NOT MET" || state=met
echo "profile: $state: $number reports with one kernel each wanted ($(tail -n +2 "$out/profile.csv" | cut -d, -f1,2 |
  tr '\n' ' ')), counters of $read_rows kernels"
exit $failed
