#!/usr/bin/env bash
# Builds the fuzz targets (clang, libFuzzer, AddressSanitizer, UndefinedBehaviorSanitizer) and runs each for a while.
# Exits with 1 where one has a finding, and names the input, which then belongs into tests/fuzz/corpus/TARGET.
# usage: scripts/fuzz.sh [SECONDS [TARGET...]]     default: 300 seconds each, all of tests/fuzz/CMakeLists.txt
#        scripts/fuzz.sh --minimize [TARGET...]    replaces the corpora by small ones that cover the same code
#   WARPTUNE_FUZZ_JOBS: how many run at a time (default: one per core)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
minimize=
seconds=300
if [[ ${1-} == --minimize ]]; then
  minimize=yes
  shift
elif (($#)); then
  seconds=$1
  shift
fi
if ! [[ $seconds =~ ^[1-9][0-9]*$ ]]; then
  echo "fuzz: '$seconds' is not a number of seconds; usage: scripts/fuzz.sh [SECONDS [TARGET...]]" >&2
  exit 2
fi
known=$(sed -n 's/^fuzz_target(\([a-z_]*\) .*/\1/p' tests/fuzz/CMakeLists.txt | xargs)
targets=("$@")
if ((${#targets[@]} == 0)); then read -ra targets <<<"$known"; fi
for target in "${targets[@]}"; do
  if [[ " $known " != *" $target "* ]]; then
    echo "fuzz: unknown target '$target'; known are $known" >&2
    exit 2
  fi
done
if ! command -v clang++-19 >/dev/null; then
  echo "fuzz: clang++-19 is not here; apt-get install clang-19 libclang-rt-19-dev" >&2
  exit 2
fi

cmake --preset fuzz >/dev/null
cmake --build --preset fuzz --target "${targets[@]/#/fuzz_}"
out=build-fuzz/fuzz
TMPDIR=$(mktemp -d -p "$(test -w /dev/shm && echo /dev/shm || echo /tmp)") # for files that hold an input
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT

# Copies files of the tree that are inputs of a target to a folder.
copy_seeds() { # TARGET FOLDER
  local file
  case $1 in
    launch) cp tests/data/launch/valid.json "$2" ;;
    sweep_yaml) cp tests/data/bad_yaml/*.yaml configs/*.yaml "$2" ;;
    model_config)
      for file in tests/data/golden/*/config.json; do cp "$file" "$2/$(basename "$(dirname "$file")")"; done
      ;;
    csv_sweep) for file in results/h200/*.csv; do head -3 "$file" >"$2/$(basename "$file")"; done ;;
    wisdom) (head -3 results/h200/wisdom.json | sed '$ s/,$//' && echo ']}') >"$2/wisdom.json" ;;
    safetensors)
      for file in tests/data/golden/*/*.safetensors; do
        head -c 4096 "$file" >"$2/$(basename "$(dirname "$file")").$(basename "$file")"
      done
      ;;
  esac
}

fuzz() { # TARGET
  local file found=$out/$1/found seeds=$out/$1/seeds corpus=tests/fuzz/corpus/$1 words=()
  if [[ -f tests/fuzz/$1.dict ]]; then words=("-dict=tests/fuzz/$1.dict"); fi
  mkdir -p "$found" "$seeds" "$corpus"
  copy_seeds "$1" "$seeds"
  if [[ $minimize ]]; then
    local small=$out/$1/small
    rm -rf "$small"
    mkdir -p "$small"
    "build-fuzz/tests/fuzz/fuzz_$1" -set_cover_merge=1 -use_counters=0 -max_len=1024 \
      "$small" "$corpus" "$found" "$seeds" || return 1
    # A file named by its hash is of an earlier minimization. The others have a meaning and stay.
    find "$corpus" -type f -regextype posix-extended -regex '.*/[0-9a-f]{40}' -delete
    for file in "$corpus"/*; do rm -f "$small/$(sha1sum <"$file" | cut -d' ' -f1)"; done
    find "$small" -type f -exec cp {} "$corpus" ';'
  else
    "build-fuzz/tests/fuzz/fuzz_$1" -max_total_time="$seconds" -timeout=60 -rss_limit_mb=8192 -max_len=4096 \
      -artifact_prefix="$out/$1/" -print_final_stats=1 "${words[@]}" "$found" "$corpus" "$seeds"
  fi
}

jobs=${WARPTUNE_FUZZ_JOBS:-$(nproc)}
for target in "${targets[@]}"; do
  mkdir -p "$out"
  while (($(jobs -rp | wc -l) >= jobs)); do wait -n || true; done
  (
    if ! fuzz "$target" >"$out/$target.log" 2>&1; then
      touch "$TMPDIR/failed"
      echo "fuzz: $target: a finding:"
      grep -E 'ERROR|SUMMARY|runtime error|broken promise|what\(\)|Test unit written' "$out/$target.log" || tail -5 "$out/$target.log"
    elif [[ $minimize ]]; then
      echo "fuzz: $target: the corpus has $(find "tests/fuzz/corpus/$target" -type f | wc -l) inputs"
    else
      echo "fuzz: $target: no finding in $(sed -n 's/^stat::number_of_executed_units: *//p' "$out/$target.log") runs"
    fi
  ) &
done
wait
[[ ! -e $TMPDIR/failed ]]
