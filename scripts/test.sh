#!/usr/bin/env bash
# Sets up, builds and runs all tests except the nightly ones. GPU tests skip without a GPU.
# usage: scripts/test.sh [--nightly] [CTEST-ARGUMENT...]     for example: scripts/test.sh -L gpu
#   --nightly: also compile every configuration of every shipped sweep, which takes hours on a few cores
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
tests=(-LE nightly)
if [[ ${1-} == --nightly ]]; then
  tests=()
  shift
fi
scripts/setup.sh --python
exec ctest --preset "${WARPTUNE_PRESET:-release}" --output-on-failure --parallel "$(nproc)" "${tests[@]}" "$@"
