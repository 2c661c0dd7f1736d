#!/usr/bin/env bash
# Records decode runs at depths 0, 1k, 2k, 4k and 8k: scripts/decode_depths.sh [arguments of `warptune decode`].
# A depth is the length of the prompt and the KV length of the timed step (1 for depth 0). Rows go to
# OUT/<device>/decode.csv. Environment: WARPTUNE (the program), OUT (results), MODELS (llama2-7b llama3-8b),
# DEPTHS (0 1024 2048 4096 8192).
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
warptune=${WARPTUNE:-$root/build/warptune}
[ -x "$warptune" ] || { echo "decode_depths: $warptune is not built" >&2; exit 2; }
for model in ${MODELS:-llama2-7b llama3-8b}; do
  for depth in ${DEPTHS:-0 1024 2048 4096 8192}; do
    length=$((depth > 0 ? depth : 1))
    "$warptune" decode --preset "$model" --prompt-len "$length" --context "$length" --steps 8 \
      --out "${OUT:-$root/results}" "$@" |
      grep -E '^(.* batch [0-9]+ context|prefill|time per token|byte floor|device memory|check)'
  done
done
