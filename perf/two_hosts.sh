#!/usr/bin/env bash
# Runs a command on several "hosts" of this one machine, joined by links of a given rate. Root, iproute2 and Open MPI:
#
#   perf/two_hosts.sh [OPTION]... RATE -- COMMAND ARG...        RATE: 500mbit, 1gbit, 10gbit, ...; free: no limit
#
#   --hosts N           hosts (default 2)
#   --ranks-per-host R  consecutive ranks of a host (default 1); they may share memory, ranks of different hosts never do
#   --cpu PERCENT       a rank has this part of its cores, and no more where another rank waits (default: no limit). With 50, two ranks that
#                       share a core are as independent of each other as on two cores of half the speed. By control groups (tried
#                       with version 1)
#   --torch             not by mpirun: COMMAND once a host, with MASTER_ADDR, MASTER_PORT, WORLD_SIZE, RANK, LOCAL_RANK and
#                       GLOO_SOCKET_IFNAME; only rank 0's output is shown
#   --measure-link      first measure what TCP gets over the links, both ways at once (needs iperf3, python3); COMMAND finds
#                       the bytes a second in WEFT_LINK_BYTES_PER_S
#   --report FILE       what is printed at the end, as JSON: rate, seconds, status, hosts [name, tx_bytes, rx_bytes],
#                       link_bytes_per_s (null if not measured)
#
# A host is a network namespace with a name of its own (h1, h2, ...), one full-duplex link to a switch: it sends at most RATE and
# receives at most RATE. Ranks are pinned to OMP_NUM_THREADS cores each (default 1), in turn; they share cores where there are too few.
# OMPI_MCA_... variables go through to mpirun. The status is COMMAND's; 2: bad arguments; 77: it cannot be done here, and why. Where
# WEFT_TEST_TOOLS is "all", root has all that it needs (jobs/setup.sh --tests), and what cannot be done is a failure: 1.
# Everything is removed at the end, also after a failure or a signal; what a killed (-9) run left is removed by the next one.
# shellcheck disable=SC2015,SC2016,SC2317  # usage does not return; some scripts are quoted whole; clean_up is called by a trap
set -uo pipefail

usage() { echo "two_hosts: $*; see the head of perf/two_hosts.sh" >&2; exit 2; }
cannot() { echo "two_hosts: $*" >&2; [ "${WEFT_TEST_TOOLS:-}" != all ] || exit 1; exit 77; }
# whole NAME VALUE LEAST MOST: checks an option's whole number.
whole() { [[ $2 =~ ^[1-9][0-9]{0,4}$ ]] && [ "$2" -ge "$3" ] && [ "$2" -le "$4" ] || usage "$1 is '$2'; it is to be a whole number from $3 to $4"; }

hosts=2 per_host=1 cpu='' torch=no measure=no report='' rate=''
while [ $# -gt 0 ]; do
  case $1 in
    --hosts | --ranks-per-host | --cpu | --report)
      [ $# -ge 2 ] && [ "$2" != -- ] || usage "$1 needs a value"
      case $1 in --hosts) hosts=$2 ;; --ranks-per-host) per_host=$2 ;; --cpu) cpu=$2 ;; *) report=$2 ;; esac
      shift ;;
    --torch) torch=yes ;;
    --measure-link) measure=yes ;;
    --) shift; break ;;
    -*) usage "unknown option $1" ;;
    *) [ -z "$rate" ] || usage "'$1' after the rate $rate; the command comes after --"; rate=$1 ;;
  esac
  shift
done
[ -n "$rate" ] || usage "no RATE, for example 500mbit"
case $rate in
  free) bytes_per_s=0 ;;
  *) [[ $rate =~ ^([1-9][0-9]{0,5})(kbit|mbit|gbit)$ ]] || usage "the rate '$rate' is not like 500mbit, 10gbit or free"
     case ${BASH_REMATCH[2]} in kbit) unit=1000 ;; mbit) unit=1000000 ;; gbit) unit=1000000000 ;; esac
     bytes_per_s=$((BASH_REMATCH[1] * unit / 8)) ;;
esac
[ $# -gt 0 ] || usage "no COMMAND after --"
whole --hosts "$hosts" 2 250
whole --ranks-per-host "$per_host" 1 1024
[ -z "$cpu" ] || whole --cpu "$cpu" 10 100
[ $torch = no ] || [ "$per_host" = 1 ] || usage "--torch starts one process a host; leave --ranks-per-host out"
[ -z "$report" ] || { [ ! -d "$report" ] && : 2>/dev/null >>"$report"; } || usage "the report $report cannot be written"

[ "$(id -u)" = 0 ] || { echo "two_hosts: only root can make network namespaces" >&2; exit 77; }
programs=(ip tc unshare taskset)
[ $torch = yes ] || programs+=(mpirun)
[ $measure = no ] || programs+=(iperf3 python3)
for program in "${programs[@]}"; do
  command -v "$program" >/dev/null || cannot "there is no $program (Debian: iproute2, util-linux, openmpi-bin, iperf3, python3)"
done

# Namespaces are named after this process: weft-PID-switch, weft-PID-h1, ...
prefix=weft-$$
pids=()

namespaces() { ip netns list 2>/dev/null | sed -n "s/^\(weft-$1-[a-z0-9]*\).*/\1/p"; }

# remove PID: ends what runs in the namespaces of that run, and deletes them (their interfaces go with them) and its files.
remove() {
  local name signal try left
  for signal in TERM KILL; do
    for ((try = 0; try < 20; try++)); do
      left=$(for name in $(namespaces "$1"); do ip netns pids "$name" 2>/dev/null; done)
      [ -n "$left" ] || break
      # shellcheck disable=SC2086
      kill -$signal $left 2>/dev/null
      sleep 0.1
    done
  done
  for name in $(namespaces "$1"); do ip netns del "$name" 2>/dev/null; done
  for name in {/dev/shm,/tmp}/weft-hosts."$1".*/cgroup; do
    mountpoint -q "$name" || continue
    # A group goes when its last process has ended.
    for ((try = 0; try < 20; try++)); do
      compgen -G "$name/weft-hosts.$1.*" >/dev/null || break
      rmdir "$name/weft-hosts.$1".* 2>/dev/null || sleep 0.1
    done
    umount "$name"
  done
  rm -rf --one-file-system {/dev/shm,/tmp}/weft-hosts."$1".*
}

clean_up() {
  trap '' INT TERM HUP
  remove $$
  wait
}

remove_left_by_killed_runs() {
  local pid
  for pid in $(namespaces '[0-9]*' | cut -d- -f2 | sort -u); do [ -d "/proc/$pid" ] || remove "$pid"; done
}

# in_host I COMMAND...: runs a command on host I, under its name. It becomes the command, so its process id is
# the caller's.
in_host() {
  local host=h$1
  shift
  exec ip netns exec "$prefix-$host" unshare --uts bash -c 'echo "$0" >/proc/sys/kernel/hostname; exec "$@"' "$host" "$@"
}

# limit NAMESPACE INTERFACE: limits what it sends. The bucket holds 4 ms of the rate, and never less than two
# of TCP's 64 KiB segments: with less, a fast link is idle between two refills. 20 ms of packets may wait.
limit() {
  [ "$rate" != free ] || return 0
  local burst=$((bytes_per_s / 250 > 131072 ? bytes_per_s / 250 : 131072))
  tc -n "$1" qdisc replace dev "$2" root tbf rate "$rate" burst $burst latency 20ms
}

# Makes a switch in a namespace of its own, and a cable from each host to it.
connect_hosts() {
  local i switch=$prefix-switch host
  ip netns add "$switch" && ip -n "$switch" link add br0 type bridge && ip -n "$switch" link set br0 up || return 1
  for ((i = 1; i <= hosts; i++)); do
    host=$prefix-h$i
    ip netns add "$host" && ip -n "$host" link add eth0 type veth peer name "port$i" netns "$switch" || return 1
    # Only the command's own bytes are to cross the links.
    ip netns exec "$host" sysctl -qw net.ipv6.conf.all.disable_ipv6=1 2>/dev/null
    ip -n "$host" addr add "10.77.0.$i/24" dev eth0 && ip -n "$host" link set lo up && ip -n "$host" link set eth0 up &&
      ip -n "$switch" link set "port$i" master br0 && ip -n "$switch" link set "port$i" up &&
      limit "$host" eth0 && limit "$switch" "port$i" || return 1
    # This is Linux's default, whatever this machine has: bbr paces by timers, and empties its link every ten
    # seconds.
    ip -n "$host" route replace 10.77.0.0/24 dev eth0 src "10.77.0.$i" congctl cubic 2>/dev/null ||
      echo "two_hosts: $host keeps $(cat /proc/sys/net/ipv4/tcp_congestion_control) for its congestion control" >&2
  done
}

# counters tx|rx: the bytes of each host's interface, on one line.
counters() {
  local i
  for ((i = 1; i <= hosts; i++)); do ip netns exec "$prefix-h$i" cat "/sys/class/net/eth0/statistics/${1}_bytes"; done | tr '\n' ' '
}

# Every host sends to the next at once. Prints the bytes a second of the slowest, by its best half second, so that other work on the machine is
# not taken for the link's limit; the first one never does: the limiter's bucket is full then, and TCP has yet to find the rate.
measure_link() {
  local i
  for ((i = 1; i <= hosts; i++)); do
    (in_host "$i" timeout 60 taskset -c "${cpus[$(((i - 1) % ${#cpus[@]}))]}" iperf3 --server --one-off --bind "10.77.0.$i" --interval 0.5 --json) >"$work/rate.$i" &
    # A server that is not there yet refuses.
    (in_host "$i" timeout 60 taskset -c "${cpus[$(((i - 1) % ${#cpus[@]}))]}" bash -c 'until iperf3 --client "$0" --time 3; do sleep 0.1; done' "10.77.0.$((i % hosts + 1))") >/dev/null 2>&1 &
  done
  wait
  python3 -c 'import json, sys
received = [[part["sum"] for part in json.load(open(name))["intervals"]] for name in sys.argv[1:]]
print(round(min(max(part["bits_per_second"] for part in parts[1:] if part["seconds"] > 0.4) for parts in received) / 8))' "$work"/rate.*
}

# Makes a control group for each rank. In a namespace /sys is another one, so they are reached by a mount of their own.
limit_cores() {
  local period=10000 rank quota group groups=/sys/fs/cgroup  # in microseconds; the kernel takes no quota below 1000
  [ -f $groups/cgroup.controllers ] || groups+=/cpu  # version 1
  { mkdir "$work/cgroup" && mount --bind "$groups" "$work/cgroup"; } || return 1
  quota=$((period * cpu * OMP_NUM_THREADS / 100))
  for ((rank = 0; rank < hosts * per_host; rank++)); do
    group=$work/cgroup/weft-hosts.$$.$rank
    mkdir "$group" || return 1
    if [ $groups = /sys/fs/cgroup ]; then
      echo "$quota $period" >"$group/cpu.max"
    else
      echo "$period" >"$group/cpu.cfs_period_us" && echo "$quota" >"$group/cpu.cfs_quota_us"
    fi || return 1
  done
}

# Writes how mpirun reaches another host, and what every rank is started with.
write_agents() {
  cat >"$work/agent" <<AGENT
#!/usr/bin/env bash
while [[ \$1 == -* ]]; do shift; done
host=\$1
shift
exec ip netns exec "$prefix-\$host" unshare --uts bash -c "echo \$host >/proc/sys/kernel/hostname; \$*"
AGENT
  cat >"$work/pinned" <<PINNED
#!/usr/bin/env bash
cpus=(${cpus[*]}) rank=\${OMPI_COMM_WORLD_RANK:-\$RANK} mine=
${cpu:+echo \$\$ >"$work/cgroup/weft-hosts.$$.\$rank/cgroup.procs" || exit}
for ((t = 0; t < $OMP_NUM_THREADS && t < \${#cpus[@]}; t++)); do mine+=,\${cpus[(rank * $OMP_NUM_THREADS + t) % \${#cpus[@]}]}; done
exec taskset -c "\${mine#,}" "\$@"
PINNED
  chmod +x "$work/agent" "$work/pinned"
}

start_mpi() {
  local i list=''
  for ((i = 1; i <= hosts; i++)); do list+=,h$i:$per_host; done
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  # A variable that is set already wins over these.
  mca pml ob1
  mca btl "$([ "$per_host" = 1 ] && echo tcp,self || echo vader,tcp,self)"
  mca btl_tcp_if_include 10.77.0.0/24
  mca oob_tcp_if_include 10.77.0.0/24
  mca btl_tcp_sndbuf 0  # the kernel then sizes the buffers
  mca btl_tcp_rcvbuf 0
  mca btl_vader_single_copy_mechanism none
  mca btl_vader_backing_directory "$work"
  mca orte_tmpdir_base "$work"
  mca plm_rsh_agent "$work/agent"
  mca plm_rsh_no_tree_spawn 1
  mca hwloc_base_binding_policy none  # "pinned" binds instead, because each host would begin at core 0
  mca rmaps_base_mapping_policy slot
  mca rmaps_base_oversubscribe 1
  [ $((hosts * per_host * OMP_NUM_THREADS)) -le ${#cpus[@]} ] || mca mpi_yield_when_idle 1
  (in_host 1 mpirun --host "${list#,}" -n $((hosts * per_host)) "$work/pinned" "$@") <&0 &
  pids+=($!)
}

mca() { local name=OMPI_MCA_$1; export "$name=${!name-$2}"; }

start_torch() {
  local i
  export MASTER_ADDR=10.77.0.1 MASTER_PORT=29511 WORLD_SIZE=$hosts LOCAL_RANK=0 GLOO_SOCKET_IFNAME=eth0
  for ((i = 1; i <= hosts; i++)); do
    (
      export RANK=$((i - 1))
      [ $i = 1 ] || exec >/dev/null
      in_host $i "$work/pinned" "$@"
    ) <&0 &
    pids+=($!)
  done
}

# Waits for all. The first failure counts, and does not wait for the others, which might wait for ever.
wait_for_all() {
  local left=${#pids[@]} status
  while [ "$left" -gt 0 ]; do
    wait -n "${pids[@]}"
    status=$?
    [ $status = 0 ] || return $status
    left=$((left - 1))
  done
}

export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} OMP_PROC_BIND=${OMP_PROC_BIND:-false}
whole OMP_NUM_THREADS "$OMP_NUM_THREADS" 1 4096
mapfile -t cpus < <(taskset -cp $$ | sed 's/.*: //' | tr , '\n' | while IFS=- read -r first last; do seq "$first" "${last:-$first}"; done)

trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP
remove_left_by_killed_runs
work=$(mktemp -d "$([ -w /dev/shm ] && echo /dev/shm || echo /tmp)/weft-hosts.$$.XXXXXX") || exit 1
connect_hosts 2>"$work/why" || cannot "cannot make hosts and links here: $(head -n 1 "$work/why")"
[ -z "$cpu" ] || limit_cores 2>"$work/why" || cannot "cannot limit the ranks' cores here: $(head -n 1 "$work/why")"
write_agents

link=null
if [ $measure = yes ]; then
  link=$(measure_link) || { echo "two_hosts: measuring the links failed" >&2; exit 1; }
  export WEFT_LINK_BYTES_PER_S=$link
fi

read -r -a sent_before <<<"$(counters tx)"
read -r -a received_before <<<"$(counters rx)"
start=${EPOCHREALTIME/[.,]/}
if [ $torch = yes ]; then start_torch "$@"; else start_mpi "$@"; fi
wait_for_all
status=$?
us=$((${EPOCHREALTIME/[.,]/} - start))
read -r -a sent <<<"$(counters tx)"
read -r -a received <<<"$(counters rx)"

seconds=$((us / 1000000)).$(printf %03d $((us / 1000 % 1000)))
rows=()
{
  echo "two_hosts: $hosts hosts, links of $rate, $seconds s, status $status"
  for ((i = 0; i < hosts; i++)); do
    tx=$((sent[i] - sent_before[i])) rx=$((received[i] - received_before[i]))
    echo "two_hosts: h$((i + 1)) sent $tx bytes, received $rx"
    rows+=("{\"name\": \"h$((i + 1))\", \"tx_bytes\": $tx, \"rx_bytes\": $rx}")
  done
  [ "$link" = null ] || echo "two_hosts: a link measured at $((link / 1000000)).$((link / 100000 % 10)) MB/s each way at once"
} >&2
if [ -n "$report" ]; then
  printf '{"rate": "%s", "seconds": %s, "status": %d, "link_bytes_per_s": %s, "hosts": [%s]}\n' "$rate" "$seconds" "$status" "$link" \
    "$(IFS=,; echo "${rows[*]}")" >"$report"
fi
exit $status
