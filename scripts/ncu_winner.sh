#!/usr/bin/env bash
# An ncu report of the winner of a problem: scripts/ncu_winner.sh WISDOM PROBLEM [REPORT]
# Example: scripts/ncu_winner.sh results/h200/wisdom.json 'rms_norm[tokens=1,hidden=4096]'
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
[ $# -ge 2 ] || { echo "usage: $0 WISDOM PROBLEM [REPORT]" >&2; exit 2; }
command -v ncu > /dev/null || { echo "ncu_winner: ncu is not on the PATH of this machine" >&2; exit 2; }
exec "${WARPTUNE:-$root/build/warptune}" profile "$2" --wisdom "$1" --run ncu -o "${3:-profile}"
