#!/usr/bin/env bash
# Builds the Python package as users get it, from a source distribution outside the tree, and tests it, without torch
# and without a GPU; ctest runs it (label python). The first run installs the pinned packages from PyPI into FOLDER/venv,
# and later ones use it.
# usage: scripts/test_python.sh [PROGRAM [FOLDER [PYTEST-ARGUMENT...]]]     default: build/warptune build/python
#   PYTHON: the interpreter, 3.10 or newer (default python3)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
program=$(realpath "${1-build/warptune}")
folder=${2-build/python}
shift $(($# < 2 ? $# : 2))
if [[ ! -x $program ]]; then
  echo "test_python: $program is not here; build it with scripts/setup.sh warptune" >&2
  exit 2
fi
mkdir -p "$folder"
folder=$(realpath "$folder")
pins=(python/tests/requirements.txt python/src/warptune/{text,history}/requirements.txt)
if ! cat "${pins[@]}" | cmp -s - "$folder/installed.txt"; then
  rm -rf "$folder/venv"
  "${PYTHON:-python3}" -m venv "$folder/venv"
  "$folder/venv/bin/pip" -q install -r "${pins[0]}" -r "${pins[1]}" -r "${pins[2]}"
  cat "${pins[@]}" >"$folder/installed.txt"
fi
rm -rf "$folder/sdist"
(cd python && "$folder/venv/bin/python" -c "import sys, scikit_build_core.build as b; b.build_sdist(sys.argv[1])" "$folder/sdist" > /dev/null)
"$folder/venv/bin/pip" -q install --no-build-isolation --no-deps --force-reinstall "$folder"/sdist/warptune-*.tar.gz
WARPTUNE_PROGRAM=$program exec "$folder/venv/bin/python" -m pytest -q -p no:cacheprovider python/tests "$@"
