#!/usr/bin/env bash
# scripts/evidence/run.sh: what it lists is in the tree, it runs a name, and it says where there is no result.
# usage: evidence.sh SOURCE SCRATCH
set -euo pipefail
source=$(realpath "$1") scratch=$2 bad=0
run=$source/scripts/evidence/run.sh
rm -rf "$scratch"
wrong() { echo "evidence.sh: $1" >&2; bad=1; }

listed=$("$run")
for page in $(grep -oE '[a-z_/A-Z]+\.md:' <<< "$listed"); do
  [ -f "$source/docs/${page%:}" ] || [ -f "$source/${page%:}" ] || wrong "$page is no page"
done
for file in $(grep -oE '[a-z_]+\.csv' <<< "$listed"); do
  [ -f "$source/results/h200/evidence/$file" ] || [ -f "$source/results/h200/$file" ] || wrong "$file is not recorded"
done
for name in $(sed -n 's/^| `\([a-z_]*\)` | .*/\1/p' "$source/docs/measuring.md"); do
  grep -q "^$name " <<< "$listed" || wrong "docs/measuring.md has '$name', which is not listed"
done

"$run" roofline --out "$scratch" | grep -qE '^roofline +met ' || wrong "roofline is not made"
grep -q '</svg>' "$scratch/roofline.svg" || wrong "roofline.svg is not whole"
code=0
said=$("$run" spin_ladder roofline --tests "$scratch" --out "$scratch") || code=$?
((code == 1)) || wrong "exit code $code where a name has no result"
grep -qE '^spin_ladder +no result .*measure_test is not built' <<< "$said" || wrong "no result is not said: $said"
grep -qE '^roofline +met ' <<< "$said" || wrong "a failure ends the run: $said"
for arguments in nothing --out; do
  code=0
  "$run" $arguments 2> "$scratch/error" || code=$?
  ((code == 2)) && [ "$(wc -l < "$scratch/error")" = 1 ] || wrong "'$arguments' ends with $code"
done
exit $bad
