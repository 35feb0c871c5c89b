#!/usr/bin/env bash
# What the scripts of jobs/, cmake/get_kokkos.sh and tests/builds.sh make of their surroundings: which program, how many ranks, whether a
# start brought anything. Needs no Slurm and no MPI: srun, squeue, scontrol, mpirun and Weft are scripts here, and so are gnuplot,
# dpkg-query, CMake, pip, sha256sum, mmdebstrap, buildah and clang++.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
# A hook has these, and they are of another repository than those below.
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_COMMON_DIR GIT_OBJECT_DIRECTORY

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

# job [NAME=VALUE]... COMMAND...: runs the command as in a job of one node, and keeps what it says. Returns its status. Bash reads
# $dir/bash_env first, if it is there.
deed='touch deck.toml'
job() {
  env -i PATH="$dir/bin:$PATH" BASH_ENV="$dir/bash_env" run="$run" deed="$deed" SLURM_JOB_ID=7 SLURM_JOB_NUM_NODES=1 SLURM_JOB_NODELIST=n1 SLURM_SUBMIT_DIR="$tree" \
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

# --- 7. setup.sh, where nothing is installed: who builds the program alone needs no GoogleTest and no h5dump ----------------------
# From here on scripts find no h5dump, also where this machine has one.
cat >"$dir/bash_env" <<'BASH'
command() { [ "${2:-}" != h5dump ] && builtin command "$@"; }
BASH
program "$dir/bin/dpkg-query" </dev/null
program "$dir/bin/cmake" <<'PROGRAM'
[ "$1" != --version ] || echo "cmake version 3.25.1"
PROGRAM
job HOME="$dir" bash jobs/setup.sh --missing --preset cpu || fail "setup.sh ends with $?"
says '^libgtest-dev$'
says '^hdf5-tools$'
job HOME="$dir" bash jobs/setup.sh --missing --preset cpu:weft || fail "setup.sh ends with $?"
says '^libfmt-dev$'
silent_about '^libgtest-dev$'
silent_about '^hdf5-tools$'

# --- 8. bundles -----------------------------------------------------------------------------------------------------------------
# The archives are false ones, which a false sha256sum takes for true. CMake finds CLI11 where jobs/prefix.sh has put it, and what `has` names.
program "$dir/bin/sha256sum" <<'PROGRAM'
[ $# -gt 0 ] || PATH=${PATH#*:} exec sha256sum
read -r _ file
[ -f "$file" ] && ! grep -q damaged "$file"
PROGRAM
program "$dir/bin/python3" <<'PROGRAM'
echo "python3: $* (PIP_NO_INDEX=${PIP_NO_INDEX:-})" >&2  # no network: whoever asks PyPI fails
exit 1
PROGRAM
program "$dir/bin/cmake" <<'PROGRAM'
case $1 in
  --version) echo "cmake version 3.25.1" ;;
  -S)
    for package in $has; do printf '%s;' "$package" >>"$2/found"; done
    [ ! -f "${CMAKE_PREFIX_PATH%%:*}/lib/cmake/CLI11/CLI11Config.cmake" ] || echo 'libcli11-dev;' >>"$2/found" ;;
  *) echo "cmake: $* (CMAKE_PREFIX_PATH=${CMAKE_PREFIX_PATH:-none})" ;;
esac
PROGRAM
source=$dir/source cache=$dir/cache
mkdir -p "$source" "$cache/archives" "$dir/frontend/include" "$dir/CLI/goofit/extern/CLI11/include/CLI"
cp -r jobs cmake "$source"
touch "$dir/kokkos.tar.gz" "$dir/frontend/include/cudnn_frontend.h" "$dir/CLI/goofit/extern/CLI11/include/CLI/CLI.hpp"
git -C "$source" init --quiet || fail "git ends with $?"
table=$(sed -n "/^cmake==/,/^TABLE/p" jobs/prefix.sh | grep '==')
[ "$(wc -l <<<"$table")" -gt 10 ] || fail "jobs/prefix.sh has no table of archives"
# NOTICE.md has each of them with its version, and what every bundle has.
requirements=$(cut -d'|' -f1 <<<"$table"; sed -n 's/^package=//p' cmake/get_kokkos.sh; echo "nvidia-cudnn-frontend==$(sed -n 's/^version=//p' cmake/get_cudnn_frontend.sh)")
for requirement in $requirements; do
  grep -q "^| .*\`${requirement%%==*}\`.* ${requirement##*==}[ ,]" NOTICE.md || fail "NOTICE.md has no row of $requirement"
done
cut -d'|' -f2 <<<"$table" | while read -r file; do echo archive >"$cache/archives/$file"; done
tar -czf "$cache/archives/goofit-2.3.0.tar.gz" -C "$dir/CLI" goofit

# bundle OPTION...: makes one at $dir/bundle.tar.gz, and lists it.
bundle() {
  job WEFT_CACHE="$cache" WEFT_KOKKOS_ARCHIVE="$dir/kokkos.tar.gz" cudnn_frontend_ROOT="$dir/frontend" \
    "$source/jobs/bundle.sh" "$@" "$dir/bundle.tar.gz" || fail "bundle.sh $* ends with $?"
  silent_about 'python3: '
  tar -tzf "$dir/bundle.tar.gz" >"$dir/log"
  says '^weft/jobs/offline_build.sh$'
  says '^weft/third_party/kokkos-source.tar.gz$'
  says '^weft/third_party/cudnn-frontend/include/cudnn_frontend.h$'
}
# refused STATUS LINE COMMAND...: it ends with that, and says this line and no more.
refused() {
  local status=$1 line=$2 ended=0
  shift 2
  job "$@" || ended=$?
  [ $ended = "$status" ] || fail "$* ends with $ended, not $status"
  says "$line"
  [ "$(wc -l <"$dir/log")" = 1 ] || fail "$* says more than a line"
}
refused 2 '^bundle: unknown option --need;' "$source/jobs/bundle.sh" --need
refused 2 '^bundle: --mpi mvapich: it is openmpi or mpich' "$source/jobs/bundle.sh" --needs --mpi mvapich
refused 2 '^bundle: --mpi mpich is for --needs' "$source/jobs/bundle.sh" --mpi mpich
refused 2 '^bundle: there are two files, a and b' "$source/jobs/bundle.sh" a b
bundle
silent_about 'third_party/needs'
bundle --needs --mpi mpich
says '^weft/third_party/needs/archives/mpich-'
silent_about 'archives/openmpi-'
bundle --needs
silent_about 'archives/mpich-'
while read -r file; do says "^weft/third_party/needs/archives/$file\$"; done < <(cut -d'|' -f2 <<<"$table" | grep -v '^mpich-')

# The other machine, which has all that CMake looks for but what is named. Kokkos is not compiled here.
mkdir "$dir/other"
tar -xzf "$dir/bundle.tar.gz" -C "$dir/other"
weft=$dir/other/weft
program "$weft/cmake/get_kokkos.sh" <<<'echo /kokkos'
libraries=$(sed -nE 's/^([a-z0-9.+-]+)\|(cmake|lib) .*/\1/p' jobs/setup.sh)
without() { grep -vxF -e "$1" -e "${2:-$1}" <<<"$libraries" | tr '\n' ' '; }
offline() { job HOME="$dir/home" has="$1" "$weft/jobs/offline_build.sh" || fail "offline_build.sh ends with $?"; }
offline "$(without none)"
says '^cmake: --build --preset cpu .*--target weft (CMAKE_PREFIX_PATH=none)$'
silent_about 'putting'
[ ! -e "$weft/build/needs" ] || fail "a machine that has all gets a prefix"
refused 1 "^prefix: neither on this machine nor in $weft/third_party/needs: libhdf5-dev;" \
  has="$(without libhdf5-dev libcli11-dev)" HOME="$dir/home" "$weft/jobs/offline_build.sh"
# Of a module that CMake does not find, whose headers would come before those of the prefix.
mkdir -p "$dir/module/include/CLI"
touch "$dir/module/include/CLI/CLI.hpp"
refused 1 "^prefix: CPATH has $dir/module/include/CLI/CLI.hpp, .* (export CMAKE_PREFIX_PATH=$dir/module:" \
  has="$(without libcli11-dev)" HOME="$dir/home" CPATH="$dir:$dir/module/include" "$weft/jobs/offline_build.sh"
offline "$(without libcli11-dev libgtest-dev)"
says "^prefix: putting cli11 into $weft/build/needs\$"
silent_about 'putting googletest'
silent_about 'python3: '
says "^cmake: --build --preset cpu .*--target weft (CMAKE_PREFIX_PATH=$weft/build/needs)\$"
says "^offline_build: before you start Weft: \. $weft/build/needs/activate\$"
[ -f "$weft/build/needs/include/CLI/CLI.hpp" ] || fail "CLI11 is not in the prefix"
offline "$(without libcli11-dev)"
silent_about 'putting'
says "^cmake: --build .* (CMAKE_PREFIX_PATH=$weft/build/needs)\$"
rm "$weft/build/needs/whole"  # as after an interruption
offline "$(without libcli11-dev)"
says "^prefix: putting cli11 into"
[ ! -e "$dir/home" ] || fail "it writes outside of its folder"

without_its_archive() {
  rm -rf "$weft/build/needs" "$weft/third_party/needs/archives/$2"*
  refused 1 "^prefix: neither on this machine nor in $weft/third_party/needs: $3;" has="$(without "$1")" "$weft/jobs/offline_build.sh"
}
without_its_archive libopenmpi-dev openmpi mpi
without_its_archive libdnnl-dev onednn_devel onednn
echo damaged >"$weft/third_party/needs/archives/goofit-2.3.0.tar.gz"
job has="$(without libcli11-dev)" "$weft/jobs/offline_build.sh" && fail "a damaged archive is taken"
says '^prefix: .*/needs/archives has no whole goofit-2.3.0.tar.gz'
silent_about 'python3: '
rm -r "$weft/third_party/needs"
job has="$(without libcli11-dev)" "$weft/jobs/offline_build.sh" && fail "a build without CLI11 is begun"
says '^  libcli11-dev '
says '^offline_build: this bundle has no libraries; one of jobs/bundle.sh --needs has'
# Nor is PyPI asked for Kokkos.
cp cmake/get_kokkos.sh "$weft/cmake"
rm "$weft/third_party/kokkos-source.tar.gz"
job HOME="$dir/home" has="$libraries" "$weft/jobs/offline_build.sh" && fail "a build without Kokkos is begun"
says '^python3: -m pip download .*(PIP_NO_INDEX=1)'
says '^get_kokkos: cannot fetch '

# --- 9. Kokkos is compiled with as many compilers at once as WEFT_BUILD_JOBS says -------------------------------------------------
mkdir -p "$dir/pygenten-0.1.5/tpls/kokkos"
tar -czf "$dir/kokkos.tar.gz" -C "$dir" pygenten-0.1.5
program "$dir/bin/cmake" <<'PROGRAM'
[ "$1" != --build ] || { echo "cmake: $*"; exit 1; }  # what it said is shown where it fails
PROGRAM
kokkos() { job WEFT_CACHE="$dir/none" WEFT_KOKKOS_ARCHIVE="$dir/kokkos.tar.gz" "$@" bash cmake/get_kokkos.sh && fail "a Kokkos that does not build is taken"; }
kokkos WEFT_BUILD_JOBS=5
says '^cmake: --build .* --parallel 5$'
kokkos
says "^cmake: --build .* --parallel $(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc)\$"

# --- 10. tests/builds.sh: what cannot be fetched is no failure, what passed is said, and whose turn it was ------------------------
mkdir "$source/tests"
cp tests/builds.sh "$source/tests"
program "$dir/bin/dpkg-query" <<<'echo installed'
program "$dir/bin/buildah" <<<'exit 1'  # it has no image yet
program "$dir/bin/mmdebstrap" <<'PROGRAM'
echo "E: $error"
echo "E: mmdebstrap failed to run"
exit 25
PROGRAM
# line STATUS ERROR NAME: how that line ends where mmdebstrap ends with ERROR.
line() {
  local status=0
  job error="$2" "$source/tests/builds.sh" "$3" || status=$?
  [ $status = "$1" ] || fail "builds.sh $3 ends with $status, not $1, after '$2'"
  says "^E: $2"
}
for name in aarch64 container; do
  line 77 'Failed to fetch bookworm/InRelease  Temporary failure resolving' "$name"
  [ "$(tail -n 1 "$dir/log")" = "builds: Debian's packages cannot be fetched" ] || fail "its last line does not say what it lacks"
  line 1 'Unable to locate package libnone-dev' "$name"
done
program "$source/cmake/get_kokkos.sh" <<<'echo /kokkos'
program "$dir/bin/cmake" <<'PROGRAM'
exit "${cmake_ends:-0}"
PROGRAM
program "$dir/bin/clang++" <<<'echo clang version 16'
job "$source/tests/builds.sh" hip || fail "builds.sh hip ends with $?"
says '^builds: hip passed on [0-9]* [A-Z][a-z]* 20[0-9][0-9], commit .*, built with .*clang version '
job cmake_ends=1 "$source/tests/builds.sh" hip && fail "a build that fails passes"
silent_about 'passed'

commit() {
  git -C "$source" add tests/builds.sh || fail "git ends with $?"
  git -C "$source" -c user.name=test -c user.email=test -c commit.gpgsign=false commit --quiet --message "$1" || fail "git ends with $?"
}
turn() { job "$source/tests/builds.sh" --whose-turn "$@" || fail "builds.sh --whose-turn $* ends with $?"; }
sed -i 's/^names=(.*)$/names=(only)/' "$source/tests/builds.sh"
commit 'a line'
cp tests/builds.sh "$source/tests"
commit 'all lines'
third=$(sed -n 's/^names=(\(.*\))$/\1/p' tests/builds.sh | cut -d' ' -f3)
turn
says "^$third\$"
turn HEAD
says "^$third\$"
turn HEAD~1
says '^only$'
refused 2 '^builds: HEAD~2 is no commit of this repository' "$source/tests/builds.sh" --whose-turn HEAD~2

echo "ok: ranks, programs, starts, sweeps, launchers, a picture, what is missing, bundles, Kokkos and builds"
