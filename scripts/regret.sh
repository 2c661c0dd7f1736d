#!/bin/sh
# regret.sh: tunes the shapes of configs/attention_grid.yaml, searches those of configs/regret.yaml exhaustively, and says
# how far what is chosen from the wisdom of the grid is from the best. Exits with 1 where a limit is passed (warptune
# regret --help). The grid is merged into results/, the search copied there: the wisdom must not learn its shapes. What
# was stopped goes on where it was.
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
