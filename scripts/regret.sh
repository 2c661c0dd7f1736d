#!/bin/sh
# regret.sh [WISDOM]: searches the shapes of configs/regret.yaml exhaustively and holds against it what is chosen from
# WISDOM (results/h200/wisdom.json). Exits with 1 where a limit is passed (warptune regret --help).
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
program=${WARPTUNE:-$root/build/warptune}
out=${OUT:-$root/out/regret} # a folder of its own: the wisdom must not learn these shapes
"$program" tune "$root/configs/regret.yaml" --out "$out"
for csv in "$out"/*/regret.csv; do
  "$program" regret "$csv" --wisdom "${1:-$root/results/$(basename "$(dirname "$csv")")/wisdom.json}"
done
