#!/usr/bin/env bash
# A timeline of a decode run: scripts/nsys_decode.sh REPORT [arguments of `warptune decode`].
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
[ $# -ge 1 ] || { echo "usage: $0 REPORT [arguments of warptune decode]" >&2; exit 2; }
command -v nsys > /dev/null || { echo "nsys_decode: nsys is not on the PATH of this machine" >&2; exit 2; }
report=$1
shift
exec nsys profile --trace=cuda,nvtx --cuda-graph-trace=node --force-overwrite=true -o "$report" \
  "${WARPTUNE:-$root/build/warptune}" decode "$@"
