#!/usr/bin/env bash
# Tunes on an A100 and packs what is to be sent back: checks the device, measures its peaks, tunes configs/a100.yaml
# within a time budget, decodes two models in two formats at three batch sizes with checks, compares the winners with
# the prediction, writes the report. What the memory of the device does not hold is left out, with a line.
# Run it again to go on: what has a row is not measured again.
# usage: scripts/a100.sh [--budget 4h] [--out DIR] [--lock-clocks SM[,MEMORY]] [--as sm_80] [--record DIR]
#   [--check-only]
# --as sm_80 rehearses all of it on a newer GPU, whose rows are of a device of their own, such as h100-as-sm_80.
# --record DIR also copies winners, steps, decode rows and device facts to DIR/<device>.
# Environment: DEVICE (cuda:0), CONFIG (configs/a100.yaml), MODELS (llama2-7b llama3-8b: presets or folders of
# checkpoints), WEIGHTS (same int4: formats of the weights), BATCHES (1 8 64), PROMPT_LEN (480), STEPS (32), CHECK_STEPS
# (32), BUDGET (4h), OUT (out/a100), WARPTUNE (build/warptune). The sweep tunes the steps of these models, formats,
# batches and lengths.
set -euo pipefail
fail() { echo "a100: $1" >&2; exit 2; }
usage() { sed -n '2,13s/^# //p' "${BASH_SOURCE[0]}"; }
budget=${BUDGET:-4h} out=${OUT:-out/a100} lock=() as=() record= check_only=
while (($#)); do
  case $1 in
    --budget) [ $# -gt 1 ] || fail "--budget needs a time"; budget=$2 && shift 2 ;;
    --out) [ $# -gt 1 ] || fail "--out needs a folder"; out=$2 && shift 2 ;;
    --lock-clocks) [ $# -gt 1 ] || fail "--lock-clocks needs MHz, or base"; lock=(--lock-clocks "$2") && shift 2 ;;
    --as) [ $# -gt 1 ] || fail "--as needs an architecture"; as=(--as "$2") && shift 2 ;;
    --record) [ $# -gt 1 ] || fail "--record needs a folder"; record=$(realpath -m "$2") && shift 2 ;;
    --check-only) check_only=yes && shift ;;
    --help | -h) usage && exit 0 ;;
    *) echo "a100: there is no option '$1'" >&2 && usage >&2 && exit 2 ;;
  esac
done
[[ $budget =~ ^[0-9]+[smhd]$ ]] || fail "the budget is '$budget'; it is a time such as 90s, 30m or 4h"
out=$(realpath -m "$out")
warptune=${WARPTUNE:-}
[ -z "$warptune" ] || warptune=$(realpath "$warptune")
config=${CONFIG:+$(realpath -m "$CONFIG")} models=() formats=${WEIGHTS:-same int4}
for model in ${MODELS:-llama2-7b llama3-8b}; do
  [ ! -d "$model" ] || model=$(realpath "$model")
  models+=("$model")
done
for weights in $formats; do
  [[ $weights =~ ^(same|int8|int4|fp8|nvfp4|mxfp4|q4_k|q6_k)(:group=[0-9]+)?$ ]] ||
    fail "WEIGHTS has '$weights'; it is same, int8, int4, fp8, nvfp4, mxfp4, q4_k or q6_k, int4 also with :group=32"
done
cd "$(dirname "${BASH_SOURCE[0]}")/.."
device=${DEVICE:-cuda:0} config=${config:-configs/a100.yaml}
index=${device#cuda:}
export CUDA_DEVICE_ORDER=PCI_BUS_ID  # cuda:N is the N of nvidia-smi

# --- The device. Each finding is a line: "ok" and a fact, or "!!" and what to do. ---
ok() { printf '  ok  %s\n' "$1"; }
todo() { printf '  !!  %s\n' "$1"; }
found() {  # NAME VALUE GOOD FIX
  if [ "$2" = "$3" ]; then ok "$1: ${2:-unknown}"; else todo "$1: $2; $4"; fi
}
query() {  # fields FIELD..: their values, separated by commas
  nvidia-smi --query-gpu="$1" --format=csv,noheader,nounits -i "$index" 2>/dev/null | head -1 | sed 's/, /,/g'
}
check_device() {
  echo "a100: device $device"
  if [ "$device" = host ]; then
    ok "the host: a trial of this script, nothing to check"
    return
  fi
  if ! command -v nvidia-smi >/dev/null; then
    todo "nvidia-smi is not here: install the NVIDIA driver, or run where it is"
    return
  fi
  local name driver sm sm_max mem mem_max power power_default mig ecc persistence others
  local smi="sudo nvidia-smi -i $index"
  IFS=, read -r name driver < <(query name,driver_version) || true
  IFS=, read -r sm sm_max mem mem_max < <(query clocks.sm,clocks.max.sm,clocks.mem,clocks.max.mem) || true
  IFS=, read -r power power_default < <(query power.limit,power.default_limit) || true
  IFS=, read -r mig ecc persistence < <(query mig.mode.current,ecc.mode.current,persistence_mode) || true
  case $name${as[*]} in
    *--as*) ok "name: $name, driver $driver; it rehearses ${as[1]}" ;;
    *A100*) ok "name: $name, driver $driver" ;;
    *) todo "name: ${name:-unknown}; this kit is for an A100, set DEVICE to one (nvidia-smi -L lists them)" ;;
  esac
  ok "clocks: SM $sm of at most $sm_max MHz, memory $mem of at most $mem_max MHz"
  found "power limit" "$power W" "$power_default W" "'$smi -pl ${power_default%.*}' restores it"
  found MIG "$mig" "${mig/Enabled/Disabled}" "a slice has a part of the SMs and of the bandwidth; '$smi -mig 0' ends it"
  found ECC "$ecc" "${ecc/Disabled/Enabled}" "cards are delivered with it on; '$smi -e 1' and a reboot turn it on"
  found "persistence mode" "$persistence" Enabled "the driver unloads between runs; '$smi -pm 1' keeps it loaded"
  others=$(nvidia-smi --query-compute-apps=pid,process_name --format=csv,noheader -i "$index" 2>/dev/null || true)
  if [ -z "$others" ]; then
    ok "no other process computes on it"
  else
    todo "others compute on it: $(echo "$others" | tr '\n' ';') times are worthless until they end"
  fi
}
if [ -n "$check_only" ]; then
  check_device
  exit 0
fi

if [ -z "$warptune" ]; then
  warptune=$PWD/build/warptune
  [ -x "$warptune" ] || scripts/setup.sh warptune
fi
[ -x "$warptune" ] || fail "'$warptune' is not a program; WARPTUNE names it"
[ -f "$config" ] || fail "there is no sweep '$config'; CONFIG names it"
logs=$out/logs
mkdir -p "$logs"
exit_code=0
# step NAME COMMAND..: runs it with its output in the log too; returns its exit code.
step() {
  local name=$1 code=0
  shift
  echo "a100: $name"
  "$@" 2>&1 | tee -a "$logs/$name.log" || code=${PIPESTATUS[0]}
  return "$code"
}
failed() {
  echo "a100: $1" >&2
  exit_code=1
}

{
  "$warptune" --version
  date -u +%FT%TZ
  "$warptune" devices
  nvidia-smi -q 2>/dev/null || echo "no nvidia-smi"
} >"$out/facts.txt" 2>&1
check_device | tee "$logs/device.log"
on=(--device "$device" "${as[@]}")
step calibrate "$warptune" calibrate "${on[@]}" --out "$out" || fail "the device cannot be calibrated (above)"

code=0
step tune "$warptune" tune "$config" "${on[@]}" --out "$out" --budget "$budget" "${lock[@]}" || code=$?
case $code in
  0) ;;
  1) failed "a problem has no correct configuration ($logs/tune.log)" ;;
  *) fail "tuning ended with $code (above); what was measured is kept" ;;
esac
wisdom=$(find "$out" -mindepth 2 -maxdepth 2 -path "*${as[1]:+-as-${as[1]}}/wisdom.json" -printf '%T@ %p\n' |
  sort -n | tail -n 1)
wisdom=${wisdom#* }
[ -n "$wisdom" ] || fail "no problem was finished within $budget; give it more with --budget"
folder=$(dirname "$wisdom")

for model in "${models[@]}"; do
  source=(--preset "$model")
  [ ! -d "$model" ] || source=(--model "$model")
  for batch in ${BATCHES:-1 8 64}; do
    for weights in $formats; do
      name=decode-$(basename "$model")-$batch
      format=()
      [ "$weights" = same ] || { format=(--weights "$weights") && name+=-$weights; }
      check=(--check-baseline "${CHECK_STEPS:-32}")
      ((batch == 1)) || check+=(--check-steps-only)  # naive kernels take minutes for many prompts
      step "$name" "$warptune" decode "${source[@]}" "${format[@]}" "${on[@]}" --out "$out" --wisdom "$wisdom" -v \
        --if-fits --batch "$batch" --prompt-len "${PROMPT_LEN:-480}" --steps "${STEPS:-32}" "${check[@]}" ||
        failed "decoding $model at batch $batch failed ($logs/$name.log)"
    done
  done
done
[ ${#as[@]} -gt 0 ] || step compare python3 scripts/predict_a100.py --compare "$wisdom" ||
  failed "the comparison with the prediction failed"
step report "$warptune" report "$out" -o "$out/report.html" || failed "the report failed"
if [ -n "$record" ]; then
  mkdir -p "$record/$(basename "$folder")"
  cp "$folder"/{wisdom,device}.json "$folder/decode.csv" "$record/$(basename "$folder")" ||
    failed "not all is recorded (above)"
fi

archive=$out/warptune-$(basename "$folder")-$(date -u +%Y%m%dT%H%M%SZ).tar.gz
packed=$(mktemp)
tar -czf "$packed" --exclude='*.tar.gz' -C "$(dirname "$out")" "$(basename "$out")"
mv "$packed" "$archive"
echo "a100: please send back"
echo "$archive"
exit "$exit_code"
