#!/bin/bash
# A job array for one sweep: task I of N measures shard I/N on the GPUs of its node.
#   sbatch --array=1-4 --gres=gpu:1 scripts/slurm/tune_array.sh configs/llama2-7b.yaml results
# When all tasks have ended, merge their results:
#   warptune merge results/shard-* -o results/all
# WARPTUNE: the program (default build/warptune). WARPTUNE_DEVICE: the devices (default all: every GPU; a node without
# one fails; host tunes its CPU). A stopped task resumes when it is submitted again. More options of `tune` may follow
# the folder.
#SBATCH --job-name=warptune
#SBATCH --output=%x-%A_%a.log
set -euo pipefail
config=${1:?the sweep, a YAML file}
out=${2:?the folder of results}
shift 2
first=${SLURM_ARRAY_TASK_MIN:-1}
index=$((${SLURM_ARRAY_TASK_ID:-1} - first + 1))
count=$((${SLURM_ARRAY_TASK_MAX:-1} - first + 1))
exec "${WARPTUNE:-build/warptune}" tune "$config" --device "${WARPTUNE_DEVICE:-all}" --shard "$index/$count" \
  --out "$out/shard-$index" "$@"
