#!/usr/bin/env bash
# A real Slurm of one node on this machine, for tests: needs root and Debian's packages slurm-wlm and munge.
#   eval "$(scripts/checks/slurm_single_node.sh up [FOLDER])"   starts it in FOLDER (by default a new one), sets SLURM_CONF
#   scripts/checks/slurm_single_node.sh down                    ends that of SLURM_CONF with its jobs, removes its folder
# The node says it has 4 processors, 64 GB and 2 GPUs, whatever the machine has: it tests where jobs go, not speed.
set -euo pipefail

fail() {
  echo "slurm_single_node.sh: $1" >&2
  exit 1
}

wait_until() {  # COMMAND...: for at most 20 s
  local end=$((SECONDS + 20))
  until "$@" >/dev/null 2>&1; do
    [ "$SECONDS" -lt "$end" ] || return 1
    sleep 0.1
  done
}

free_port() {
  python3 -c 'import socket; s = socket.socket(); s.bind(("", 0)); print(s.getsockname()[1])'
}

idle() { [ "$(sinfo --noheader --format=%t)" = idle ]; }
no_jobs() { [ -z "$(squeue --noheader)" ]; }
ended() { ! kill -0 "$1"; }

up() {
  [ "$(id -u)" = 0 ] || fail "needs root"
  local daemon folder
  for daemon in munged slurmctld slurmd; do
    command -v "$daemon" >/dev/null || fail "no $daemon: apt-get install slurm-wlm munge"
  done
  folder=${1:-$(mktemp -d -t slurm-XXXXXX)}
  mkdir -p "$folder"/{munge,state,spool}
  folder=$(cd "$folder" && pwd)
  chmod go-rwx "$folder/munge"
  head -c 128 /dev/urandom > "$folder/munge/key"
  chmod 600 "$folder/munge/key"
  export SLURM_CONF=$folder/slurm.conf
  cat > "$SLURM_CONF" <<CONF
ClusterName=single
SlurmctldHost=localhost
SlurmctldPort=$(free_port)
SlurmdPort=$(free_port)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/munge/socket
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
GresTypes=gpu
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=1,sched_interval=1
ReturnToService=2
KillWait=5
MinJobAge=10
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.log
NodeName=localhost NodeAddr=127.0.0.1 CPUs=4 RealMemory=65536 Gres=gpu:2
PartitionName=all Nodes=localhost Default=YES
CONF
  echo "NodeName=localhost Name=gpu File=/dev/null,/dev/zero" > "$folder/gres.conf"
  munged --force --socket="$folder/munge/socket" --key-file="$folder/munge/key" --pid-file="$folder/munged.pid" \
    --log-file="$folder/munge/log" --seed-file="$folder/munge/seed"
  slurmctld
  slurmd -N localhost
  wait_until idle || fail "the node does not come up: $(tail -n 3 "$folder/slurmd.log")"
  echo "export SLURM_CONF=$SLURM_CONF"
}

down() {
  local folder pid name
  folder=$(dirname "${SLURM_CONF:?is not set}")
  [ -d "$folder/munge" ] || fail "$folder was not made by up"
  scancel --user=root && wait_until no_jobs || echo "slurm_single_node.sh: jobs may still run" >&2
  for name in slurmd slurmctld munged; do
    pid=$(cat "$folder/$name.pid") && kill "$pid" && wait_until ended "$pid" || true
  done
  rm -rf "$folder"
}

case "${1:-}" in
  up | down) "$@" ;;
  *) fail "up [FOLDER] or down" ;;
esac
