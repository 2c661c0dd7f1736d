#!/bin/sh
# Tunes the shapes of configs/attention_grid.yaml, searches those of configs/regret.yaml exhaustively, and prints how
# far the choices from the grid's wisdom are from the best. Exits with 1 if a limit is exceeded (warptune regret
# --help). Everything stays below out/: the wisdom must not contain the shapes of the search. A stopped run resumes.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
program=${WARPTUNE:-$root/build/warptune}
grid=$root/out/attention_grid search=$root/out/regret
for sweep in attention_grid regret; do
  "$program" tune "$root/configs/$sweep.yaml" --device "${WARPTUNE_DEVICE:-all}" --out "$root/out/$sweep"
done
for csv in "$search"/*/regret.csv; do
  "$program" regret "$csv" --wisdom "$grid/$(basename "$(dirname "$csv")")/wisdom.json"
done
