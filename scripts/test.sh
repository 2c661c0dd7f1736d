#!/usr/bin/env bash
# Sets up, builds and runs all tests. GPU tests skip where there is no GPU.
# usage: scripts/test.sh [CTEST-ARGUMENT...]     for example: scripts/test.sh -L gpu
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
scripts/setup.sh
exec ctest --preset "${WARPTUNE_PRESET:-release}" --output-on-failure --parallel "$(nproc)" "$@"
