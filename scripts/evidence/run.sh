#!/usr/bin/env bash
# Reproduces recorded figures of the documents, most of them on a GPU.
#   scripts/evidence/run.sh                               lists what it can reproduce: name, sentence, files it writes
#   scripts/evidence/run.sh NAME... [OPTION...] [-- ARGUMENT...]
#     all: every name. ARGUMENTS go to the command behind NAME (aa_study, ncu_agreement, decode_depths).
#     --out DIR (out/evidence)   --program P (build/warptune; $WARPTUNE)   --tests DIR (build/tests: measure_test)
#     --wisdom FILE (results/h200/wisdom.json)   --device D (auto)   --without-nvtx P (build-no-nvtx/warptune)
# Continues after a failure and ends with a table: met, NOT MET (a bar or a check), or no result. Exits with 1 if one is
# not met or has no result. aa_study takes 40 minutes on an H200, sweeps up to 20, anything else less than three.
# shellcheck disable=SC2317  # the functions are called by name
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
here=$root/scripts/evidence
fail() { echo "evidence: $1" >&2; exit 2; }
# A function below is evidence if a line "#: SENTENCE" precedes it; what follows "->" are the files of --out it writes.
described() { sed -n '/^#: /{h;s/^#: //;N;s/\n\([a-z_]*\)() {$/\t\1/p}' "${BASH_SOURCE[0]}"; }
names() { described | cut -f2; }

# --- Does the harness measure right? docs/measuring.md#evidence ---

#: measuring.md: waits of 1 to 8 us are recovered within 5 %, slowdowns by 3 % are found -> spin_ladder.csv slowdown.csv
spin_ladder() {
  [ -x "$tests/measure_test" ] || fail "$tests/measure_test is not built"
  WARPTUNE_EVIDENCE=$out "$tests/measure_test" --gtest_filter='GpuSpinLadder.*'
}
#: measuring.md: cold or isolated rows agree with ncu within 3 %, less a graph node -> ncu_agreement.csv
ncu_agreement() {
  "$here/ncu_agreement.py" "${winners[@]}" "${arguments[@]}"
}
#: regression.md: equal runs raise no alarm, slowdowns by 3 and 10 % are found -> aa_study.csv
aa_study() {
  "$here/aa_study.py" "${winners[@]}" "${arguments[@]}"
}
#: regression.md: a baseline of the winners at one token, compared with itself, has no slower row -> regress.txt
regress() {
  export WARPTUNE=$program DEVICE=$device OUT=$work/regress BASELINES=$work/baseline
  export PROBLEM=${PROBLEM-"(tokens|batch)=1,"}
  "$root/scripts/regress.sh" --record "$wisdom"
  "$root/scripts/regress.sh" | tee "$out/regress.txt"
}
#: lessons/measuring.md: racecheck is silent where it sees every barrier, and finds the race -> racecheck_pipeline.csv
racecheck_pipeline() {
  local cases=(one_lane_arrives all_lanes_arrive one_lane_arrives_with_proxy_fence plain_stores race) i wrong hazards
  nvcc -std=c++20 -O3 -arch=sm_90a -diag-suppress 1886 -I"$root" -o "$work/racecheck_pipeline" \
    "$here/racecheck_pipeline.cu"
  echo case,hazards,wrong_sums > "$out/racecheck_pipeline.csv"
  for i in "${!cases[@]}"; do
    wrong=$("$work/racecheck_pipeline" "$i")
    hazards=$(compute-sanitizer --tool racecheck "$work/racecheck_pipeline" "$i" 2>&1 |
      sed -n 's/.*RACECHECK SUMMARY: \([0-9]*\) hazard.*/\1/p')
    echo "${cases[i]},${hazards:-none},$wrong" | tee -a "$out/racecheck_pipeline.csv"
  done
  grep -q '^all_lanes_arrive,0,0$' "$out/racecheck_pipeline.csv" &&
    grep -q '^race,[1-9]' "$out/racecheck_pipeline.csv"
}
#: lessons/linear_quantized_gemm.md: what a scheduler issues beside wgmma -> wgmma_slots.csv
wgmma_slots() {
  nvcc -std=c++20 -O3 -gencode arch=compute_90a,code=sm_90a -diag-suppress 1886 -I"$root" -o "$work/wgmma_slots" \
    "$here/wgmma_slots.cu"
  "$work/wgmma_slots" | tee "$out/wgmma_slots.csv"
}
#: lessons/linear_quantized_gemm.md: what instructions beside mma.sync cost -> mma_slots.csv
mma_slots() {
  nvcc -std=c++20 -O3 -gencode arch=compute_80,code=compute_80 -diag-suppress 1886 -I"$root" -o "$work/mma_slots" \
    "$here/mma_slots.cu"
  "$work/mma_slots" | tee "$out/mma_slots.csv"
}
#: measuring.md: with a cold cubin cache a sweep of 506 configurations measures 80 % of the time
busy() {
  local sweep=("$program" tune "$root/configs/evidence_500.yaml" --device "$device" -v)
  export WARPTUNE_CACHE=$work/cubins
  "${sweep[@]}" --out "$work/cold" | tee "$work/cold.log"
  "${sweep[@]}" --out "$work/warm" --jobs 1
  "$program" compare "$work"/warm/*/evidence_500.csv "$work"/cold/*/evidence_500.csv --all-rows || (($? == 1))
  (($(sed -n 's/.*the workers measured \([0-9]*\) % of the time.*/\1/p' "$work/cold.log") >= 80))
}
#: profiling.md: with NVTX compiled in no row is 1 % slower or faster
nvtx() {
  local problems='^linear.tokens=1,in=4096,out=(4096|12288),|^rms_norm.tokens=(1|4096),|^argmax.batch=1,vocab=32000'
  local timed=(rerun "$wisdom" --problem "$problems" --device "$device" --out "$work")
  [ -x "$without_nvtx" ] || fail "$without_nvtx is not built (the preset no-nvtx)"
  for ((runs = 1; runs <= 7; runs++)); do  # each adds a run, so the programs are interleaved
    "$program" "${timed[@]}" --name with --runs "$runs"
    "$without_nvtx" "${timed[@]}" --name without --runs "$runs"
  done
  "$program" compare "$work"/*/without.csv "$work"/*/with.csv --interleaved --min-effect 1%
  "$program" compare "$work"/*/with.csv "$work"/*/without.csv --interleaved --min-effect 1%
}
#: profiling.md: an ncu report has one kernel, its NVTX range and its sources; counters are read -> counters.csv
profile() {
  local problem report pattern='^(rms_norm.tokens=1,hidden=4096|linear.tokens=1,in=4096,out=4096,'
  pattern+='|attention_decode.batch=1,q_heads=32,kv_heads=32,head_dim=128,context=4096,.*append=no)'
  for problem in 'rms_norm[tokens=1,hidden=4096]' 'linear[tokens=1,in=4096,out=4096]'; do
    report=$work/${problem%%[*}
    "$program" profile "$problem" --wisdom "$wisdom" --device "$device" --run ncu -o "$report"
    ncu --import "$report.ncu-rep" --csv --page raw > "$report.csv"
    ncu --import "$report.ncu-rep" --csv --page source --print-source cuda,sass > "$report.source.csv"
    [ "$(grep -c '^"[0-9]' "$report.csv")" = 1 ]
    grep '^"[0-9]' "$report.csv" | grep -qF "${problem%%[*}_"
    grep -qaF "/${problem%]}" "$report.ncu-rep"
    grep -qF __global__ "$report.source.csv"
    echo "profile: one kernel, its range and its sources are in the report of $problem"
  done
  rm -f "$out/counters.csv"
  "$program" counters --wisdom "$wisdom" --problem "$pattern" --device "$device" --csv "$out/counters.csv"
}

# --- Tables of times ---

#: README.md: times of PyTorch and FlashInfer beside ours -> torch_peers.csv flashinfer_peers.csv
peers() {
  rm -f "$out/torch_peers.csv" "$out/flashinfer_peers.csv"
  "$root/scripts/peers/torch_peers.py" --e2e --out "$out/torch_peers.csv"
  "$root/scripts/peers/flashinfer_peers.py" --out "$out/flashinfer_peers.csv"
}
#: choosing.md: what likely configurations lose against the fastest recorded ones, by op
likely_configs() {
  "$here/likely_configs.py" "$wisdom"
}
#: README.md: the roofline of the recorded sweeps (needs no GPU) -> roofline.svg
roofline() {
  "$root/scripts/roofline.py" "$root/results/h200" -o "$out/roofline.svg"
}
#: features.md: what features cost
features() {
  "$program" tune "$root/configs/features.yaml" --device "$device" --out "$out"
  "$root/scripts/features.py" "$out"/*/features.csv
}
#: lessons/step.md: plans tuned in the step
steps() {
  "$program" tune "$root/configs/steps.yaml" --device "$device" --out "$out"
}
#: decode.md: a step at depths from 0 to 8192
decode_depths() {
  local model depth
  for model in llama2-7b llama3-8b; do
    for depth in 1 1024 2048 4096 8192; do
      "$program" decode --preset "$model" --prompt-len "$depth" --context "$depth" --steps 8 --device "$device" \
        --wisdom "$wisdom" --out "$out" "${arguments[@]}"
    done
  done
}
#: profiling.md: the time of a decode step per op -> nsys_tinyllama.csv
nsys_tinyllama() {
  PROFILE_STEPS=8 WARPTUNE=$program "$root/scripts/nsys_decode.sh" "$work/tinyllama" --preset tinyllama-1.1b \
    --prompt-len 496 --steps 16 --device "$device" --wisdom "$wisdom"
  "$root/scripts/nsys_ops.py" "$work/tinyllama.sqlite" --csv "$out/nsys_tinyllama.csv"
}
#: python.md: a call costs the host 5 to 7 us; logits are as near to fp32 as transformers' -> python_torch.csv
python_torch() {
  "$program" export --wisdom "$wisdom" --model tinyllama-1.1b --batch 1 --context 512 --prompt-len 128 --arch sm_90a \
    -o "$work/winners"
  "$here/python_torch.py" "$work/winners" --out "$out"
}

# --- Correctness and sharing ---

#: measuring.md: every variant is right on large, tiny and infinite inputs
edges() {
  "$program" tune "$root/configs/edges.yaml" --device "$device" --out "$out"
}
#: measuring.md: one sweep on all GPUs of a machine
two_gpus() {
  "$program" tune "$root/configs/evidence_500.yaml" --device all --out "$work/all" -v
}
#: decode.md: logits and tokens of a 1.1B model are those of transformers
validate_hf() {
  "$root/scripts/validate_hf.py" --program "$program" --device "$device" --wisdom "$wisdom"
}

out=$root/out/evidence program=${WARPTUNE:-$root/build/warptune} tests=$root/build/tests device=auto
wisdom=$root/results/h200/wisdom.json without_nvtx=$root/build-no-nvtx/warptune chosen=() arguments=()
while (($#)); do
  case $1 in
    --) arguments=("${@:2}"); break ;;
    --out | --program | --tests | --wisdom | --device | --without-nvtx)
      (($# > 1)) || fail "$1 needs a value"
      option=${1#--}
      printf -v "${option//-/_}" %s "$2"
      shift 2
      ;;
    all) mapfile -t chosen < <(names) && shift ;;
    *)
      names | grep -qxe "$1" || fail "there is no '$1'; $0 lists the names"
      chosen+=("$1")
      shift
      ;;
  esac
done
if ((${#chosen[@]} == 0)); then
  described | awk -F '\t' '{ sub(/ -> /, sprintf("\n%19s", ""), $1); printf "%-18s %s\n", $2, $1 }'
  exit
fi
mkdir -p "$out"
out=$(realpath "$out")
PATH=$PATH:/usr/local/cuda/bin
winners=(--program "$program" --out "$out" --device "$device" --wisdom "$wisdom")
base=$(mktemp -d)
trap 'rm -rf "$base"' EXIT

table='' failed=0
for name in "${chosen[@]}"; do
  start=$SECONDS work=$base/$name
  mkdir -p "$work"
  touch "$base/start"
  set +e
  (set -e; "$name") 2>&1 | tee "$work.log"
  code=${PIPESTATUS[0]}
  set -e
  case $code in 0) state=met ;; 1) state='NOT MET' ;; *) state='no result' ;; esac
  for file in $(described | sed -n "s/.* -> \(.*\)\t$name\$/\1/p"); do
    [[ $state != met || $out/$file -nt $base/start ]] || state='no result'
  done
  [ "$state" = met ] || failed=1
  table+=$(printf '%-18s %-10s %4d s  %s' "$name" "$state" $((SECONDS - start)) "$(tail -n 1 "$work.log")")$'\n'
done
printf '\n%s' "$table" | tee "$out/summary.txt"
exit $failed
