#!/usr/bin/env bash
# From a fresh clone to tuned kernels and a checked decode: builds, tunes configs/quick.yaml on the GPU if there
# is one (else on the host), decodes a small model from the winners and compares it with its golden.
# usage: scripts/quickstart.sh [--out DIR]     (default: out)
set -euo pipefail
out=out
case ${1-} in
  --out) out=${2:?--out needs a folder} && shift 2 ;;
  --out=*) out=${1#--out=} && shift ;;
esac
if (($#)); then
  sed -n '2,4s/^# //p' "${BASH_SOURCE[0]}"
  [[ $1 == --help || $1 == -h ]] && exit 0 || exit 2
fi
out=$(realpath -m "$out")
cd "$(dirname "${BASH_SOURCE[0]}")/.."

scripts/setup.sh warptune
program=$([[ ${WARPTUNE_PRESET:-release} == host ]] && echo build-host/warptune || echo build/warptune)

echo "quickstart: devices"
"$program" devices

echo "quickstart: tuning configs/quick.yaml"
"$program" tune configs/quick.yaml --out "$out"
wisdom=$(find "$out" -mindepth 2 -maxdepth 2 -name wisdom.json -printf '%T@ %p\n' | sort -n | tail -n 1 | cut -d' ' -f2-)
if [[ -z $wisdom ]]; then
  echo "quickstart: the sweep left no wisdom.json in $out" >&2
  exit 1
fi
folder=$(dirname "$wisdom")

model=tests/data/golden/gqa
echo "quickstart: decoding $model from the winners, checked against its golden"
"$program" decode --model "$model" --dtype fp32 --out "$out" --wisdom "$wisdom" --require-tuned \
  --check "$model/golden.safetensors"

echo "quickstart: done"
echo "  one row per configuration: $folder/quick.csv"
echo "  the winners:               $wisdom"
echo "  the decode run:            $folder/decode.csv"
