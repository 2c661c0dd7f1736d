#!/usr/bin/env bash
# An ncu report of a winner: scripts/ncu_winner.sh WISDOM OP/VARIANT "tokens=1,hidden=4096" [DTYPE] [REPORT].
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
[ $# -ge 3 ] || { echo "usage: $0 WISDOM OP/VARIANT DIMS [DTYPE] [REPORT]" >&2; exit 2; }
command -v ncu > /dev/null || { echo "ncu_winner: ncu is not on the PATH of this machine" >&2; exit 2; }
exec "${WARPTUNE:-$root/build/warptune}" profile "$2" --problem "$3" --dtype "${4:-bf16}" --from-wisdom "$1" \
  --run ncu -o "${5:-profile}"
