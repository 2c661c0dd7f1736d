#!/usr/bin/env bash
# Mutation testing of the modules that run on the host: changes one operator, number or statement at a time and expects
# a test to fail. Takes hours for all modules, so it is for nightly runs.
# usage: scripts/mutants.sh [--per-file N] [--seed S] [MODULE...]      for example: scripts/mutants.sh csv space
# Exits with 1 if less than 90 % of the mutants of a module are found.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
folder=${WARPTUNE_MUTANTS:-build/mutants}
mkdir -p "$folder"/tree
if [[ ! -x $folder/venv/bin/mutate ]]; then
  python3 -m venv "$folder/venv"
  "$folder/venv/bin/pip" -q install universalmutator==1.14.1
fi
# A copy of the tree, whose files are changed.
git ls-files -z --cached --others --exclude-standard |
  tar --format=posix --null --files-from=- --ignore-failed-read -cf - 2>/dev/null | tar -xf - -C "$folder/tree"
exec python3 scripts/mutants.py "$folder" "$@"
