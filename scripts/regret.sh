#!/bin/sh
# regret.sh: tunes the shapes of configs/attention_grid.yaml into results/, searches those of configs/regret.yaml
# exhaustively and holds against it what is chosen from the wisdom. Exits with 1 where a limit is passed (warptune
# regret --help). What was stopped goes on where it was.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
program=${WARPTUNE:-$root/build/warptune}
out=${OUT:-$root/results}
apart=$root/out/regret # the wisdom must not learn these shapes
"$program" tune "$root/configs/attention_grid.yaml" --device "${WARPTUNE_DEVICE:-all}" --out "$out"
"$program" tune "$root/configs/regret.yaml" --device "${WARPTUNE_DEVICE:-all}" --out "$apart"
for csv in "$apart"/*/regret.csv; do
  device=$(basename "$(dirname "$csv")")
  cp "$csv" "$out/$device/"
  "$program" regret "$csv" --wisdom "$out/$device/wisdom.json"
done
