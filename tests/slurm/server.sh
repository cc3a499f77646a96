#!/bin/sh
# A SLURM cluster of two nodes on this machine, from Debian's packages slurm-wlm and munge:
#   server.sh start DIR    start the daemons with their files in DIR; print the path of slurm.conf
#   server.sh stop DIR     stop them; DIR can be removed afterwards
# The first node has this machine's name because JAX looks for the coordinator at the name of the
# first node. Commands such as sbatch find the cluster through SLURM_CONF=DIR/slurm.conf.
set -eu

usage() { echo "usage: $0 start|stop DIR" >&2; exit 2; }
[ $# -eq 2 ] || usage
action=$1
mkdir -p "$2"
directory=$(cd "$2" && pwd)
PATH=$PATH:/usr/sbin:/sbin
export SLURM_CONF="$directory/slurm.conf"
host=$(hostname -s)

free_ports() { # three of them
  python3 - <<'PYTHON'
import socket
sockets = [socket.socket() for _ in range(3)]
for each in sockets:
    each.bind(("127.0.0.1", 0))
print(*(each.getsockname()[1] for each in sockets))
PYTHON
}

case $action in
  start)
    for program in munged slurmctld slurmd; do
      command -v $program >/dev/null \
        || { echo "error: no $program (on Debian and Ubuntu: apt install slurm-wlm munge)" >&2; exit 1; }
    done
    user=$(id -un)
    read -r controller first second <<PORTS
$(free_ports)
PORTS
    mkdir -p "$directory/state" "$directory/spool"
    chmod 755 "$directory"
    # Processors are declared and not bound: the two nodes share those of this machine.
    cat >"$SLURM_CONF" <<CONFIG
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$controller
SlurmUser=$user
SlurmdUser=$user
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=$directory/munge.socket
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=batch_sched_delay=0,sched_interval=1,sched_min_interval=0
StateSaveLocation=$directory/state
SlurmdSpoolDir=$directory/spool/%n
SlurmctldPidFile=$directory/slurmctld.pid
SlurmdPidFile=$directory/slurmd-%n.pid
SlurmctldLogFile=$directory/slurmctld.log
SlurmdLogFile=$directory/slurmd-%n.log
ReturnToService=2
KillWait=5
MinJobAge=3600
SlurmdParameters=config_overrides
NodeName=$host NodeHostname=$host NodeAddr=127.0.0.1 Port=$first CPUs=4 State=UNKNOWN
NodeName=$host-second NodeHostname=$host NodeAddr=127.0.0.1 Port=$second CPUs=4 State=UNKNOWN
PartitionName=all Nodes=$host,$host-second Default=YES MaxTime=INFINITE State=UP
CONFIG
    (umask 077 && head -c 1024 /dev/urandom >"$directory/munge.key")
    munged --force --key-file="$directory/munge.key" --socket="$directory/munge.socket" \
      --pid-file="$directory/munged.pid" --log-file="$directory/munged.log" \
      --seed-file="$directory/munge.seed" >&2
    slurmctld >&2
    slurmd -N "$host" >&2
    slurmd -N "$host-second" >&2
    for _ in $(seq 60); do
      [ "$(sinfo --noheader --format=%T 2>/dev/null)" != idle ] || { echo "$SLURM_CONF"; exit 0; }
      sleep 0.5
    done
    echo "error: the nodes are not idle after 30 seconds" >&2
    tail -n 20 "$directory"/*.log >&2
    exit 1
    ;;
  stop)
    scancel --state=RUNNING --signal=KILL --user="$(id -un)" 2>/dev/null || true
    for daemon in "slurmd-$host" "slurmd-$host-second" slurmctld munged; do
      [ ! -f "$directory/$daemon.pid" ] || kill "$(cat "$directory/$daemon.pid")" 2>/dev/null || true
    done
    for _ in $(seq 150); do
      [ -n "$(ls "$directory"/*.pid 2>/dev/null)" ] || exit 0
      sleep 0.2
    done
    echo "error: some daemons did not stop: $(ls "$directory"/*.pid)" >&2
    exit 1
    ;;
  *) usage ;;
esac
