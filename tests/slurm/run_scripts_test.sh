#!/usr/bin/env bash
# What the scripts of jobs/ make of their surroundings: which program, how many ranks, whether a start brought anything. Needs no Slurm and
# no MPI: srun, squeue, scontrol, mpirun and Weft are scripts here, and so are gnuplot, dpkg-query and CMake.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1

dir=$(mktemp -d /tmp/weft-scripts.XXXXXX) || exit 1
trap 'rm -rf "$dir"' EXIT
fail() {
  echo "FAILED: $*"
  [ ! -s "$dir/log" ] || tail -n 15 "$dir/log"
  exit 1
}
says() { grep -q -e "$1" "$dir/log" || fail "no '$1' in what it says"; }
silent_about() { ! grep -q -e "$1" "$dir/log" || fail "it says '$1'"; }

# program FILE: makes a program of standard input.
program() { mkdir -p "$(dirname "$1")" && { echo '#!/usr/bin/env bash'; cat; } >"$1" && chmod +x "$1"; }

# --- the machine --------------------------------------------------------------------------------------------------------------
tree=$dir/tree run=$dir/run
mkdir -p "$tree/build/cpu" "$tree/build/cuda"
cp -r jobs "$tree/jobs"
program "$dir/bin/srun" <<'PROGRAM'
echo "srun: $*"
while [[ $1 == --* ]]; do shift; done
exec "$@"
PROGRAM
program "$dir/bin/squeue" <<'PROGRAM'
case " $* " in *" %L "*) echo 10:00 ;; *) echo RUNNING ;; esac
PROGRAM
program "$dir/bin/scontrol" <<'PROGRAM'
echo "scontrol: $*"
PROGRAM
program "$dir/bin/mpirun" <<'PROGRAM'
[ "$1" != --version ] || { echo "mpirun (Open MPI) 4.1.4"; exit; }
echo "mpirun: $* ($OMP_NUM_THREADS, $OMP_PROC_BIND, $OMP_PLACES)"
PROGRAM
# A Weft that does to its run directory what the variable `deed` says.
program "$dir/weft" <<'PROGRAM'
if [ "$1" = deck ]; then
  printf '[run]\ndir = "%s"\n\n' "$run"
else
  echo "weft: $0 $*"
  mkdir -p "$run/checkpoints" && cd "$run" && eval "$deed"
fi
PROGRAM
cp "$dir/weft" "$tree/build/cpu/weft"

# job [NAME=VALUE]... COMMAND...: runs the command as in a job of one node, and keeps what it says. Returns its status.
deed='touch deck.toml'
job() {
  env -i PATH="$dir/bin:$PATH" run="$run" deed="$deed" SLURM_JOB_ID=7 SLURM_JOB_NUM_NODES=1 SLURM_JOB_NODELIST=n1 SLURM_SUBMIT_DIR="$tree" \
    "$@" >"$dir/log" 2>&1
}

# --- 1. ranks -----------------------------------------------------------------------------------------------------------------
# ranks NODES TASKS TASKS_OF_A_NODE RESTARTS RANKS: TASKS is SLURM_NTASKS, which is not set where it is empty.
ranks() {
  job ${2:+SLURM_NTASKS="$2"} SLURM_JOB_NUM_NODES="$1" SLURM_NTASKS_PER_NODE="$3" SLURM_RESTART_COUNT="$4" bash jobs/train.sbatch DECK ||
    fail "a job ends with $?"
  says ": $5 ranks of 1 threads"
  says "--ntasks=$5 "
}
ranks 2 8 4 0 8
ranks 2 6 4 0 6  # as --ntasks=6 asks
ranks 2 6 4 1 6
ranks 3 6 4 1 12  # other nodes than at the first start, which had six tasks
ranks 2 32 8 0 16  # other nodes than it was submitted with
ranks 1 8 4 1 4
ranks 2 '' 4 0 8

# --- 2. the program -----------------------------------------------------------------------------------------------------------
job bash jobs/train.sbatch DECK
says 'weft: .*/build/cpu/weft train DECK'
silent_about 'the job has GPUs'
job SLURM_GPUS_ON_NODE=8 bash jobs/train.sbatch DECK
says 'the job has GPUs, but there is no build/cuda/weft: build/cpu/weft trains'
says 'weft: .*/build/cpu/weft train DECK'
cp "$dir/weft" "$tree/build/cuda/weft"
for gpus in SLURM_GPUS_ON_NODE=8 SLURM_GPUS_PER_NODE=a100:4 SLURM_JOB_GPUS=0; do
  job "$gpus" bash jobs/train.sbatch DECK
  says 'weft: .*/build/cuda/weft train DECK'
  silent_about 'the job has GPUs'
done
job bash jobs/train.sbatch DECK
says 'weft: .*/build/cpu/weft train DECK'
job SLURM_GPUS_ON_NODE=8 WEFT="$dir/weft" bash jobs/train.sbatch DECK
says "weft: $dir/weft train DECK"
silent_about 'the job has GPUs'

# --- 3. what a start brought --------------------------------------------------------------------------------------------------
# start STATUS STARTS WHAT: a start that does WHAT. STARTS in a row that bring nothing end the run.
start() {
  local deed=$3 status=0
  job WEFT_STARTS="$2" bash jobs/train.sbatch DECK || status=$?
  [ $status = "$1" ] || fail "a start that does '$3' ends with $status, not $1"
}
counted() {
  local starts
  starts=$(cat "$run/vain_starts" 2>/dev/null || echo none)
  [ "$starts" = "$1" ] || fail "the starts that brought nothing are $starts, not $1"
}
rm -rf "$run"
mkdir -p "$run/checkpoints/step-00000400"  # of before: the run goes on from a lower step
start 0 1 'mkdir checkpoints/step-00000100; exit 75'
says 'scontrol: requeue 7'
start 0 1 'mkdir checkpoints/again; rmdir checkpoints/step-00000100; mv checkpoints/again checkpoints/step-00000100; exit 75'
says 'scontrol: requeue 7'
start 1 1 'exit 75'
says '1 starts in a row brought no new checkpoint (the newest: step-00000400)'
start 0 3 'exit 75'
counted 1
start 0 3 'mv checkpoints/step-00000400 checkpoints/step-00000400.damaged; exit 75'  # what goes is nothing new
counted 2
start 1 3 'mkdir checkpoints/step-00000110; exit 1'
counted none
start 0 3 'exit 75'
counted 1
start 0 3 'mkdir checkpoints/step-00000120; touch deck.toml'
counted none

# --- 4. sweeps ----------------------------------------------------------------------------------------------------------------
member=(SLURM_ARRAY_JOB_ID=9 SLURM_ARRAY_TASK_ID=1)
job "${member[@]}" bash jobs/sweep.sbatch DECK --over run.seed=1,2 || fail "a member of a sweep ends with $?"
says "weft: .*/build/cpu/weft train DECK .*--set run.seed=2 --set run.dir=$run/run.seed=2"
for over in run.seed= run.seed ''; do
  job "${member[@]}" bash jobs/sweep.sbatch DECK --over "$over"
  [ $? = 2 ] || fail "--over '$over' is not refused"
  says "^sweep.sbatch: --over '$over': there are no values"
  silent_about 'weft: '
done
# Slurm runs a copy, and the folder from which it was submitted need not be a source tree.
mkdir -p "$dir/spool" "$dir/elsewhere"
cp jobs/sweep.sbatch "$dir/spool/slurm_script"
member+=(SLURM_SUBMIT_DIR="$dir/elsewhere" WEFT="$dir/weft")
job "${member[@]}" bash "$dir/spool/slurm_script" DECK --over run.seed=1,2
[ $? = 2 ] || fail "a sweep without train.sbatch is not refused"
says '^sweep.sbatch: there is no jobs/train.sbatch'
job "${member[@]}" WEFT_JOBS="$tree/jobs" bash "$dir/spool/slurm_script" DECK --over run.seed=1,2 || fail "a sweep from elsewhere ends with $?"
says 'weft: .* train DECK .*--set run.seed=2'

# --- 5. launch.sh -------------------------------------------------------------------------------------------------------------
launch() { job env -u SLURM_JOB_ID "$@"; }
for numbers in '-n 0' '-n abc' '-n -1' '-n 1.5' '-n' '-n 2 --threads 0' '-n 2 --threads x'; do
  # shellcheck disable=SC2086
  launch jobs/launch.sh $numbers -- true
  [ $? = 2 ] || fail "launch.sh $numbers is not refused"
  says '^launch: .*: it takes a whole number from 1 on'
  [ "$(wc -l <"$dir/log")" = 1 ] || fail "launch.sh $numbers says more than a line"
done
launch jobs/launch.sh -n 1 --threads 1 -- true || fail "launch.sh ends with $?"
says '^mpirun: .*-x OMP_NUM_THREADS -x OMP_PROC_BIND -x OMP_PLACES .*-n 1 true (1, close, cores)'
launch jobs/launch.sh -n 1000 --threads 2 -- true || fail "launch.sh ends with $?"
says '^mpirun: .*-x OMP_PROC_BIND .*-n 1000 true (2, false, cores)'
launch jobs/launch.sh -n 1 --threads 1 true -- --help || fail "launch.sh without -- ends with $?"
says '^mpirun: .* -n 1 true -- --help (1, close, cores)'
launch jobs/launch.sh -n 1 --thread 1 true
[ $? = 2 ] || fail "launch.sh --thread is not refused"
says '^launch: unknown option --thread; see jobs/launch.sh --help'
launch jobs/launch.sh --help || fail "launch.sh --help ends with $?"
says '^Starts a command on MPI ranks'
says '^WEFT_MPIEXEC names another launcher'
silent_about '[#]'
job jobs/launch.sh -n 1 -- true || fail "launch.sh in a job ends with $?"
says '^srun: .*--ntasks=1 '
job WEFT_MPIEXEC=mpirun jobs/launch.sh -n 1 -- true || fail "launch.sh with WEFT_MPIEXEC in a job ends with $?"
says '^mpirun: .*-n 1 true'

# --- 6. plot_loss.sh: gnuplot would run what stands between backticks in double quotes ------------------------------------------
program "$dir/bin/gnuplot" <<'PROGRAM'
tee "$0.script"
touch "$(sed -n "s/^set output '\(.*\)'$/\1/p" "$0.script")"
PROGRAM
named="$dir/it's \`date\`"
mkdir "$named"
echo '{"kind": "train", "step": 1, "loss": 5}' >"$named/metrics.jsonl"
job bash jobs/plot_loss.sh "$named" || fail "plot_loss.sh ends with $?"
says "^set title 'it''s \`date\`' noenhanced"
[ -e "$named/loss.png" ] || fail "there is no picture"

# --- 7. setup.sh, where nothing is installed: who builds the program alone needs no GoogleTest ------------------------------------
program "$dir/bin/dpkg-query" </dev/null
program "$dir/bin/cmake" <<'PROGRAM'
[ "$1" != --version ] || echo "cmake version 3.25.1"
PROGRAM
job HOME="$dir" bash jobs/setup.sh --missing --preset cpu || fail "setup.sh ends with $?"
says '^libgtest-dev$'
job HOME="$dir" bash jobs/setup.sh --missing --preset cpu:weft || fail "setup.sh ends with $?"
says '^libfmt-dev$'
silent_about '^libgtest-dev$'

echo "ok: ranks, programs, starts, sweeps, launchers, a picture and what is missing"
