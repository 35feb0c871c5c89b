#!/usr/bin/env bash
# Starts a command on MPI ranks, whichever launcher this machine has:
#
#   jobs/launch.sh -n RANKS [--threads N] [--] COMMAND ARG...
#
# Inside a Slurm allocation it is `srun`, otherwise `mpirun` (Open MPI or MPICH's Hydra). N threads a rank (default: the cores this
# process may use, in a Slurm job on each of its nodes, shared out over the ranks, at least 1; SLURM_CPUS_PER_TASK goes first).
# Ranks are bound to N cores each when there are enough cores; threads of a rank stay within its cores, and Weft's own
# communication threads reset their affinity.
# WEFT_MPIEXEC names another launcher (inside a Slurm allocation, too), WEFT_MPIEXEC_FLAGS adds flags; WEFT_SRUN_MPI is srun's --mpi
# (default pmix).
set -euo pipefail

# number OPTION VALUE: refuses a value that is no number of ranks or threads.
number() { [[ ${2:-} =~ ^[1-9][0-9]{0,7}$ ]] || { echo "launch: $1 '${2:-}': it takes a whole number from 1 on" >&2; exit 2; }; }

ranks='' threads=''
while [ $# -gt 0 ]; do
  case $1 in
    -n) number "$@"; ranks=$2; shift 2 ;;
    --threads) number "$@"; threads=$2; shift 2 ;;
    --help | -h) sed -n '2,/^set /s/^# \{0,1\}//p' "$0"; exit 0 ;;
    --) shift; break ;;
    -*) echo "launch: unknown option $1; see jobs/launch.sh --help" >&2; exit 2 ;;
    *) break ;;
  esac
done
if [ -z "$ranks" ] || [ $# -eq 0 ]; then
  echo "launch: usage: jobs/launch.sh -n RANKS [--threads N] [--] COMMAND ARG..." >&2
  exit 2
fi

# Ranks write into the launcher's pipes: only here can be seen whether a terminal shows them, and how wide it is.
if [ -t 2 ]; then
  columns=$(stty size <&2 2>/dev/null | cut -d' ' -f2) || columns=
  export WEFT_TERMINAL_COLUMNS=${columns:-80}
fi

cores=$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc)  # nproc would take their values for the number of cores
if [ -n "${SLURM_JOB_ID:-}" ]; then
  cores=$((cores * ${SLURM_JOB_NUM_NODES:-1}))
  if [ -z "$threads" ] && [ $((ranks * ${SLURM_CPUS_PER_TASK:-0})) -le "$cores" ]; then threads=${SLURM_CPUS_PER_TASK:-}; fi
fi
[ -n "$threads" ] || threads=$((cores / ranks > 0 ? cores / ranks : 1))
export OMP_NUM_THREADS=$threads
export OMP_PROC_BIND=${OMP_PROC_BIND:-close} OMP_PLACES=${OMP_PLACES:-cores}
read -r -a extra <<<"${WEFT_MPIEXEC_FLAGS:-}"

if [ -n "${SLURM_JOB_ID:-}" ] && [ -z "${WEFT_MPIEXEC:-}" ] && command -v srun >/dev/null; then
  exec srun --mpi="${WEFT_SRUN_MPI:-pmix}" --kill-on-bad-exit=1 --ntasks="$ranks" --cpus-per-task="$threads" \
    ${extra[@]+"${extra[@]}"} "$@"  # bash before 4.4 takes an empty array for one that is not set
fi

mpiexec=${WEFT_MPIEXEC:-}
[ -n "$mpiexec" ] || mpiexec=$(command -v mpirun || command -v mpiexec) ||
  { echo "launch: no mpirun and no mpiexec on PATH (install openmpi-bin, or load an MPI module)" >&2; exit 1; }

flags=()
if "$mpiexec" --version 2>/dev/null | grep -q 'Open MPI\|OpenRTE'; then
  [ "$(id -u)" != 0 ] || flags+=(--allow-run-as-root)
  if [ $((ranks * threads)) -le "$cores" ]; then
    flags+=(--map-by "slot:PE=$threads" --bind-to core)
  else
    flags+=(--oversubscribe --bind-to none)
    export OMP_PROC_BIND=false OMPI_MCA_mpi_yield_when_idle=1
  fi
  # Open MPI passes only its own variables to ranks on other hosts; these are named, so that it passes them, too.
  flags+=(-x OMP_NUM_THREADS -x OMP_PROC_BIND -x OMP_PLACES)
  # Containers often forbid process_vm_readv. Shared memory must then be told so, or it warns at each start.
  export OMPI_MCA_btl_vader_single_copy_mechanism=${OMPI_MCA_btl_vader_single_copy_mechanism:-none}
elif [ $((ranks * threads)) -gt "$cores" ]; then
  export OMP_PROC_BIND=false
fi
exec "$mpiexec" ${flags[@]+"${flags[@]}"} ${extra[@]+"${extra[@]}"} -n "$ranks" "$@"
