# A real Slurm of two nodes on this one machine, for tests: jobs of the partition `urgent` take the place of those of `test`, which have
# 20 s to end. To be sourced, as root:
#   cluster_open        skips the test (77) where there can be no Slurm; else starts it in $dir, a folder that goes with the script.
#                       Where WEFT_TEST_TOOLS is "all", a Slurm that is not installed is a failure.
#   fail MESSAGE        shows the ends of all logs in $dir, and exits
#   until_true SECONDS COMMAND...
# shellcheck shell=bash
cluster_pids=()

skip() { echo "skipped: $*"; exit 77; }
missing() { [ "${WEFT_TEST_TOOLS:-}" != all ] || { echo "FAILED: $*"; exit 1; }; skip "$*"; }

fail() {
  echo "FAILED: $*"
  for log in "$dir"/*.log "$dir"/*.out; do
    [ ! -s "$log" ] || { echo "--- end of $log"; tail -n 15 "$log"; }
  done
  exit 1
}

cluster_open() {
  local program
  [ "$(id -u)" = 0 ] || skip "only root can start Slurm's daemons"
  for program in slurmctld slurmd munged sbatch; do
    command -v $program >/dev/null || missing "$program is not installed (Debian: slurm-wlm, munge)"
  done
  dir=$(mktemp -d /tmp/weft-slurm.XXXXXX)
  trap 'cluster_stop; rm -rf "$dir"' EXIT
  trap 'exit 130' INT TERM HUP
  cluster_start "$dir" || fail "Slurm did not start"
}

# Sets `port` to the first of three ports in a row that no socket of this machine has. They lie below those that Linux gives to clients
# (32768 and up): any connection of another test may have one of those. Two tests begin a hundred ports apart.
free_ports() {
  port=$((10000 + $$ * 100 % 20000))
  while grep -q -s "$(printf ': [0-9A-F]*:\(%04X\|%04X\|%04X\) ' $port $((port + 1)) $((port + 2)))" /proc/net/tcp /proc/net/tcp6; do
    port=$((port + 3))
  done
}

# Starts the daemons with all their files under the folder; exports SLURM_CONF.
cluster_start() {
  local dir=$1 host port
  host=$(hostname -s)
  free_ports
  mkdir -p "$dir/state" "$dir/spool.n1" "$dir/spool.n2" "$dir/tmp.n1" "$dir/tmp.n2"
  chmod 755 "$dir"
  # This is a munge of our own: the machine's, if it has one, is left alone.
  (umask 077 && head -c 1024 /dev/urandom >"$dir/munge.key")
  # Two slurmd on one host need spool and temporary folders by node (%n), or their PMIx sockets collide.
  cat >"$dir/slurm.conf" <<CONF
ClusterName=weft
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=$dir/munge.socket
SlurmctldPort=$port
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd.%n.pid
SlurmctldLogFile=$dir/slurmctld.log
SlurmdLogFile=$dir/slurmd.%n.log
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool.%n
TmpFS=$dir/tmp.%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=5
NodeName=n1 NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + 1)) CPUs=2
NodeName=n2 NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + 2)) CPUs=2
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=test Nodes=n1,n2 Default=YES MaxTime=10:00 DefaultTime=5:00 GraceTime=20 State=UP
PartitionName=urgent Nodes=n1,n2 PriorityTier=10 MaxTime=10:00 DefaultTime=5:00 State=UP
CONF
  export SLURM_CONF=$dir/slurm.conf
  munged --foreground --force --key-file="$dir/munge.key" --socket="$dir/munge.socket" --pid-file="$dir/munged.pid" \
    --seed-file="$dir/munged.seed" --log-file="$dir/munged.log" >"$dir/munged.out" 2>&1 &
  cluster_pids+=($!)
  until_true 10 test -S "$dir/munge.socket" || return 1
  slurmctld -D >"$dir/slurmctld.out" 2>&1 &
  cluster_pids+=($!)
  for node in n1 n2; do
    slurmd -D -N $node >"$dir/slurmd.$node.out" 2>&1 &
    cluster_pids+=($!)
  done
  until_true 30 both_idle
}

both_idle() { [ "$(sinfo --noheader --partition=test --Node --format %t 2>/dev/null | grep -c '^idle$')" = 2 ]; }

# until_true SECONDS COMMAND...: waits for the command to succeed.
until_true() {
  local end=$((SECONDS + $1))
  shift
  until "$@"; do
    [ $SECONDS -lt $end ] || return 1
    sleep 0.2
  done
}

cluster_stop() {
  [ ${#cluster_pids[@]} -gt 0 ] || return 0
  timeout 10 scancel --user=root 2>/dev/null
  until_true 15 no_jobs
  # They end in the reverse order of their start, munge last.
  for ((i = ${#cluster_pids[@]} - 1; i >= 0; --i)); do
    kill "${cluster_pids[$i]}" 2>/dev/null
    wait "${cluster_pids[$i]}" 2>/dev/null
  done
  cluster_pids=()
}

no_jobs() { [ -z "$(timeout 5 squeue --noheader 2>/dev/null)" ]; }
