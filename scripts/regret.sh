#!/bin/sh
# Tunes the shapes of configs/attention_grid.yaml, searches those of configs/regret.yaml exhaustively, and prints how
# far the choices from the grid's wisdom are from the best. Exits with 1 if a limit is exceeded (warptune regret
# --help). The grid is merged into results/. The search is only copied there, because the wisdom must not contain its
# shapes. A stopped run resumes.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
program=${WARPTUNE:-$root/build/warptune}
results=${OUT:-$root/results}
grid=$root/out/attention_grid search=$root/out/regret
for sweep in attention_grid regret; do
  "$program" tune "$root/configs/$sweep.yaml" --device "${WARPTUNE_DEVICE:-all}" --out "$root/out/$sweep"
done
"$program" merge "$grid" -o "$results"
for csv in "$search"/*/regret.csv; do
  device=$(basename "$(dirname "$csv")")
  cp "$csv" "$results/$device/"
  "$program" regret "$csv" --wisdom "$grid/$device/wisdom.json"
done
