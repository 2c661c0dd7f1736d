#!/usr/bin/env bash
# Runs the GPU tests of every op under compute-sanitizer (memcheck, racecheck, initcheck), with a few configurations of
# each variant except the vendor's. Needs a GPU and a built tree.
# usage: scripts/sanitize.sh [TOOL... | hostile]      WARPTUNE_TEST_CONFIGS=N configurations per variant (default 2),
#        SHARDS=N processes at a time, FILTER=GTEST-FILTER, OPS_TEST=PROGRAM
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
program=${OPS_TEST:-build/tests/ops_test}
tools=("$@")
((${#tools[@]})) || tools=(memcheck racecheck initcheck)
export WARPTUNE_TEST_CONFIGS=${WARPTUNE_TEST_CONFIGS:-2} WARPTUNE_POOL=cuda_plain WARPTUNE_TEST_VENDOR=0 WARPTUNE_BANDS=0
if ! command -v compute-sanitizer >/dev/null; then
  echo "sanitize: compute-sanitizer is not here; it comes with the CUDA Toolkit" >&2
  exit 2
fi

# memcheck must find a kernel that reads past the end; this fails if it does not.
if [[ ${1:-} == hostile ]]; then
  compute-sanitizer --tool memcheck --padding 1024 --error-exitcode 9 "${MEASURE_TEST:-build/tests/measure_test}" \
    --gtest_filter=GpuHostile.ReadsPastTheEnd
  if (($? == 9)); then
    echo "sanitize: hostile: the read past the end was found"
    exit 0
  fi
  echo "sanitize: hostile: the read past the end was NOT found" >&2
  exit 1
fi

# A process without a test makes no CUDA call, which compute-sanitizer takes for an error.
listed=$("$program" --gtest_list_tests --gtest_filter="${FILTER:-*Gpu*}" | grep -c '^  ')
shards=${SHARDS:-8}
export GTEST_TOTAL_SHARDS=$((listed < shards ? (listed > 0 ? listed : 1) : shards))
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
failed=0
for tool in "${tools[@]}"; do
  pids=()
  for ((shard = 0; shard < GTEST_TOTAL_SHARDS; shard++)); do
    GTEST_SHARD_INDEX=$shard compute-sanitizer --tool "$tool" --error-exitcode 9 \
      "$program" --gtest_filter="${FILTER:-*Gpu*}" >"$logs/$shard" 2>&1 &
    pids+=($!)
  done
  bad=0
  for pid in "${pids[@]}"; do wait "$pid" || bad=1; done
  tests=$(cat "$logs"/* | grep -c '\[       OK \]')
  if ((bad)); then
    failed=1
    grep -hE '=========.*(Error|hazard|Invalid|Uninit|Race)|\[  FAILED' -A4 "$logs"/* | head -60
    mkdir -p out && cat "$logs"/* >"out/sanitize-$tool.log"
    echo "sanitize: $tool: found errors ($tests tests passed); the whole report is out/sanitize-$tool.log"
  elif ((tests == 0)); then
    failed=1
    echo "sanitize: $tool: no test ran; is there a GPU, and does a name fit FILTER?"
  else
    echo "sanitize: $tool: clean ($tests tests)"
  fi
done
exit $failed
