#!/usr/bin/env bash
# Validates what the program writes for other tools: T4 against the schema that kernel_tuner (PyPI) ships, solutions
# and traces by the data classes of flashinfer-bench (PyPI, without torch, which they do not need).
# usage: scripts/check_exchange.sh      WARPTUNE: the program (default build/warptune)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
program=${WARPTUNE:-build/warptune}
if [[ ! -x $program ]]; then
  echo "check_exchange: $program is not here; build it with scripts/setup.sh warptune" >&2
  exit 2
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q install pydantic==2.14.3 jsonschema==4.26.0
"$folder/venv/bin/pip" -q install --no-deps kernel_tuner==1.5.0 flashinfer-bench==0.1.2
"$folder/venv/bin/python" scripts/check_exchange.py "$program" "$folder/out"
