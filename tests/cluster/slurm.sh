#!/usr/bin/env bash
# Run a command beside a small Slurm of this machine: one node, two CPUs. As root on Debian or Ubuntu.
#
#     tests/cluster/slurm.sh COMMAND...
#
# Installs slurm-wlm and munge where they are missing, starts their daemons with a configuration in a temporary folder,
# runs the command, and stops the daemons. Nothing outside that folder is written, apart from the packages.
set -euo pipefail

(($#)) || { echo "usage: $0 COMMAND..." >&2 && exit 1; }
[[ $(id -u) == 0 ]] || { echo "$0: must run as root, because Slurm's node daemon must" >&2 && exit 1; }
if ! command -v slurmd munged >/dev/null; then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends slurm-wlm munge
fi

folder=$(mktemp -d)
chmod 755 "$folder"
mkdir "$folder/munge" "$folder/state" "$folder/spool"
node=$(hostname -s)
memory=$(awk '/MemAvailable/ {print int($2 / 1024)}' /proc/meminfo)
export SLURM_CONF=$folder/slurm.conf
cat >"$SLURM_CONF" <<EOF
ClusterName=test
SlurmctldHost=$node(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/munge/socket
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SchedulerType=sched/backfill
SlurmctldPort=16817
SlurmdPort=16818
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.log
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
ReturnToService=2
NodeName=$node NodeAddr=127.0.0.1 CPUs=2 RealMemory=$memory State=UNKNOWN
PartitionName=main Nodes=$node Default=YES MaxTime=INFINITE State=UP
EOF
dd if=/dev/urandom of="$folder/munge/key" bs=1024 count=1 status=none
chmod 700 "$folder/munge"
chmod 600 "$folder/munge/key"

daemons=()
stop() {
    local daemon
    for daemon in "${daemons[@]}"; do kill "$daemon" 2>/dev/null || true; done
    wait || true
    rm -rf "$folder"
}
trap stop EXIT

munged --foreground --force --key-file "$folder/munge/key" --socket "$folder/munge/socket" \
    --pid-file "$folder/munge/pid" --log-file "$folder/munge/log" --seed-file "$folder/munge/seed" >"$folder/out" 2>&1 &
daemons=($! "${daemons[@]}")
for _ in {1..50}; do [[ -S $folder/munge/socket ]] || sleep 0.1; done
slurmctld -D -i >>"$folder/out" 2>&1 &
daemons=($! "${daemons[@]}")
slurmd -D -N "$node" >>"$folder/out" 2>&1 &
daemons=($! "${daemons[@]}")
for _ in {1..60}; do
    [[ $(sinfo -h -o %t 2>/dev/null) == idle ]] || sleep 0.5
done
if [[ $(sinfo -h -o %t 2>&1) != idle ]]; then
    echo "$0: the node does not become idle: $(sinfo -h 2>&1)" >&2
    tail -n 20 "$folder/out" "$folder"/*.log "$folder/munge/log" >&2
    exit 1
fi
"$@"
