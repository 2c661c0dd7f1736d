#!/bin/bash
# Runs tune_array.sh in a real Slurm on this machine: starts munge, slurmctld and slurmd from the
# distribution's packages (apt-get install slurm-wlm munge), submits an array of two tasks on the host
# device, merges their results and compares them with the whole sweep. Needs root; leaves nothing running.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
program=${WARPTUNE:-$root/build/warptune}
for tool in munged slurmctld slurmd sbatch; do
  command -v "$tool" > /dev/null || { echo "try_local.sh: $tool is not installed (slurm-wlm, munge)"; exit 2; }
done
work=$(mktemp -d)
pids=()
trap 'for pid in "${pids[@]}"; do kill "$pid" 2> /dev/null || true; done; wait || true; rm -rf "$work"' EXIT
chmod 755 "$work"
mkdir -p "$work/state" "$work/spool" "$work/munge"
chmod 711 "$work/munge"
host=$(hostname -s)
cat > "$work/slurm.conf" << CONF
ClusterName=local
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$work/munge/socket
SlurmctldPort=26817
SlurmdPort=26818
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc) State=UNKNOWN
PartitionName=main Nodes=$host Default=YES MaxTime=INFINITE State=UP
CONF
export SLURM_CONF=$work/slurm.conf
dd if=/dev/urandom of="$work/munge/key" bs=1024 count=1 2> /dev/null
chmod 400 "$work/munge/key"
munged --foreground --force --key-file="$work/munge/key" --socket="$work/munge/socket" \
  --pid-file="$work/munge/pid" --log-file="$work/munge/log" --seed-file="$work/munge/seed" &
pids+=($!)
sleep 1
slurmctld -D > "$work/slurmctld.log" 2>&1 &
pids+=($!)
slurmd -D > "$work/slurmd.log" 2>&1 &
pids+=($!)
for _ in $(seq 60); do
  sinfo -h -o %t 2> /dev/null | grep -q idle && break
  sleep 0.5
done
sinfo || { tail -5 "$work"/*.log; exit 1; }

cat > "$work/sweep.yaml" << YAML
device: host
sampling: {min_samples: 6, max_time: 0.01}
ops:
  - op: rms_norm
    dtypes: fp32
    problems: [{tokens: 4, hidden: [16, 32, 64, 128]}]
YAML
cd "$work"
export WARPTUNE=$program OMP_WAIT_POLICY=passive WARPTUNE_DEVICE=host
sbatch --wait --array=1-2 "$root/scripts/slurm/tune_array.sh" "$work/sweep.yaml" "$work/results" ||
  { tail -20 "$work"/*.log; exit 1; }
"$program" merge "$work"/results/shard-* -o "$work/results/all"
"$program" tune "$work/sweep.yaml" --out "$work/whole" > /dev/null
rows() { tail -n +2 "$1" | wc -l; }
merged=$(rows "$work/results/all/host/sweep.csv") whole=$(rows "$work/whole/host/sweep.csv")
echo "merged $merged rows, the whole sweep has $whole"
[ "$merged" = "$whole" ]
