#!/usr/bin/env bash
# Installs what is missing (Debian 12, Ubuntu 24.04), configures and builds.
# usage: scripts/setup.sh [--python] [TARGET...]     (default: everything; WARPTUNE_PRESET=host builds without CUDA)
#   --python: also makes build/python-venv, the Python that `decode` uses for text and `history check` for change
#   points; its packages come from PyPI
#   PYTHON: the interpreter of it, 3.10 or newer (default python3)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=
if [[ ${1-} == --python ]]; then
  python=1
  shift
fi

packages=(cmake ninja-build g++ ccache libfmt-dev libyaml-cpp-dev libbenchmark-dev libgtest-dev libgmock-dev
  libcli11-dev nlohmann-json3-dev libre2-dev
  libxxhash-dev libssl-dev python3-dev python3-venv)

installed() {
  case $1 in
    cmake | g++ | ccache) command -v "$1" >/dev/null ;;
    ninja-build) command -v ninja >/dev/null ;;
    *) dpkg-query -W -f='${Status}' "$1" 2>/dev/null | grep -q 'install ok installed' ;;
  esac
}

missing=()
for package in "${packages[@]}"; do
  installed "$package" || missing+=("$package")
done
if ((${#missing[@]})); then
  if ! command -v apt-get >/dev/null; then
    echo "setup: apt-get is not here; please install what provides: ${missing[*]}" >&2
    exit 1
  fi
  echo "setup: installing ${missing[*]}"
  root=()
  if ((EUID != 0)); then root=(sudo); fi
  "${root[@]}" apt-get update -qq
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
fi

pins=(python/src/warptune/{text,history}/requirements.txt) venv=build/python-venv
if [[ $python ]] && ! cat "${pins[@]}" | cmp -s - "$venv/installed.txt"; then
  rm -rf "$venv"
  "${PYTHON:-python3}" -m venv "$venv"
  "$venv/bin/pip" -q install -r "${pins[0]}" -r "${pins[1]}"
  cat "${pins[@]}" >"$venv/installed.txt"
fi

preset=${WARPTUNE_PRESET:-release}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! cmake --preset "$preset" >"$log" 2>&1; then
  cat "$log" >&2
  exit 1
fi
sed -n 's/^-- warptune: /setup: /p' "$log" # which devices are built

arguments=()
if (($#)); then arguments=(--target "$@"); fi
cmake --build --preset "$preset" --parallel "$(nproc)" "${arguments[@]}"
