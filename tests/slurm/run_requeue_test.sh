#!/usr/bin/env bash
# Life under Slurm, in a real one of two nodes on this machine: jobs that are signalled, preempted, at their time limit or cancelled, in
# train.sbatch, chain.sh and sweep.sbatch. A run that was interrupted and went on with other numbers of ranks has the loss curve of
# one that was not. Ends with 77 ("skipped: ...") where there can be no Slurm. WEFT names the program.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
export WEFT=${WEFT:-$PWD/build/cpu/weft}

# shellcheck source=tests/slurm/cluster.sh
. tests/slurm/cluster.sh
cluster_open

# submit NAME OPTION... -- ARGUMENT...: submits a job of the tiny deck in the run directory $dir/NAME, and
# prints its number.
submit() {
  local name=$1 options=()
  shift
  while [ "$1" != -- ]; do options+=("$1"); shift; done
  sbatch --parsable --cpus-per-task=1 --output="$dir/$name.log" "${options[@]}" \
    jobs/train.sbatch tests/slurm/tiny.toml --set run.dir="$dir/$name" "${@:2}"
}
state() { scontrol show job "$1" 2>/dev/null | sed -n 's/.*JobState=\([A-Z]*\).*/\1/p'; }
in_state() { [ "$(state "$1")" = "$2" ]; }
expect_state() { until_true "$3" in_state "$1" "$2" || fail "job $1 is $(state "$1"), not $2"; }
last_step() { sed -n 's/.*"step": *\([0-9]*\).*/\1/p' "$dir/$1/metrics.jsonl" 2>/dev/null | tail -n 1; }
beyond() { [ "$(last_step "$1" || echo 0)" -gt "$2" ] 2>/dev/null; }
expect_beyond() { until_true 60 beyond "$1" "$2" || fail "$1 did not come beyond step $2"; }
expect_log() { grep -q "$2" "$dir/$1.log" || fail "no '$2' in the log of $1"; }
losses() { sed -n 's/^{"kind": "train", \("step": [0-9]*, "loss": [^,]*, "grad_norm": [^,]*\),.*/\1/p' "$dir/$1/metrics.jsonl"; }
# Slurm waits two minutes before it starts a requeued job again. With no wait at all its steps would meet what
# is left of the first start.
no_steps() { ! pgrep --full "slurmstepd: \[$(number "$1")\." >/dev/null; }
number() { squeue --noheader --job "$1" --format %A; }  # of a member of an array (ARRAY_MEMBER), its own
start_now() { sleep 4; until_true 60 no_steps "$1" || fail "steps of job $1 are still there"; scontrol update JobId="$1" StartTime=now "${@:2}" || fail "job $1 cannot be changed"; }

steps=1000
one=(--nodes=1 --ntasks-per-node=1) two=(--nodes=2 --ntasks-per-node=1)

# The first job runs into its time limit. Slurm looks every half minute, so this one runs beside the others.
limit=$(WEFT_REQUEUE=no submit limit "${one[@]}" --time=1 --signal=USR1@60 -- --set run.steps=100000000)

# 1. A job is signalled on two ranks, requeued on one, signalled again, and finished on two.
job=$(submit parts "${two[@]}" -- --set run.steps=$steps)
expect_beyond parts 100
scancel --signal=USR1 "$job"
expect_state "$job" PENDING 60
expect_log parts 'SIGUSR1 on rank [01]: stopped after step'  # the rank that was there a step earlier
at=$(last_step parts)
start_now "$job" NumNodes=1 NumTasks=1
expect_beyond parts $((at + 100))
scancel --signal=TERM "$job"
expect_state "$job" PENDING 60
expect_log parts 'SIGTERM on rank 0: stopped after step'
start_now "$job" NumNodes=2 NumTasks=2
expect_state "$job" COMPLETED 240
submit whole "${two[@]}" --wait -- --set run.steps=$steps >/dev/null || fail "the whole run ended with status $?"
[ "$(losses whole | wc -l)" = $steps ] || fail "metrics.jsonl has $(losses whole | wc -l) of $steps steps"
[ "$(losses parts)" = "$(losses whole)" ] || fail "the loss curves differ"
[ "$(grep -c ': 2 ranks of 1 threads' "$dir/parts.log")" = 2 ] || fail "it did not run twice on two ranks"
[ "$(grep -c ': 1 ranks of 1 threads' "$dir/parts.log")" = 1 ] || fail "it did not run once on one rank"

# 2. A chain: the first job is interrupted, the second is stopped by the file, the others never start.
mapfile -t chain < <(jobs/chain.sh 4 "${one[@]}" --output="$dir/chain.log" \
  jobs/train.sbatch tests/slurm/tiny.toml --set run.dir="$dir/chain" --set run.steps=100000000)
expect_beyond chain 20
scancel --signal=USR2 "${chain[0]}"
expect_state "${chain[0]}" FAILED 30
at=$(last_step chain)
expect_beyond chain $((at + 20))
touch "$dir/chain/STOP"
expect_state "${chain[1]}" COMPLETED 90
for link in 2 3; do expect_state "${chain[link]}" CANCELLED 60; done
[ "$(grep -c ': 1 ranks of 1 threads' "$dir/chain.log")" = 2 ] || fail "the chain did not have two links"
expect_log chain "the file $dir/chain/STOP: stopped after step"

# 3. An array has a member that is not in it.
sbatch --wait --array=0-2 "${one[@]}" --output="$dir/sweep.%a.log" jobs/sweep.sbatch tests/slurm/tiny.toml \
  --over run.seed=1,2 --over optimizer.lr=1e-3 --set run.dir="$dir/sweep" >/dev/null && fail "the third of two members exists"
for seed in 1 2; do
  [ "$(last_step "sweep/run.seed=$seed,optimizer.lr=1e-3")" = 4 ] || fail "member $seed of the array did not train"
done
grep -q 'member 2 is beyond the combinations' "$dir/sweep.2.log" || fail "the third member says nothing"

# 4. Of an array the last member, whose number is also the array's, is signalled. It is requeued, and goes on; the other one trains meanwhile.
array=$(sbatch --parsable --array=0-1 "${one[@]}" --output="$dir/array.%a.log" jobs/sweep.sbatch tests/slurm/tiny.toml \
  --over run.seed=1,2 --set run.dir="$dir/array" --set run.steps=100000000)
for seed in 1 2; do expect_beyond array/run.seed=$seed 20; done
[ "$(number "${array}_1")" = "$array" ] || fail "the last member of the array has not the array's number"
scancel --signal=USR1 "${array}_1"
expect_state "${array}_1" PENDING 60
in_state "${array}_0" RUNNING || fail "the first member of the array is $(state "${array}_0"), too"
expect_log array.1 "job ${array}_1: requeued"
start_now "${array}_1"
at=$(last_step array/run.seed=2)
expect_beyond array/run.seed=2 $((at + 20))
for seed in 1 2; do touch "$dir/array/run.seed=$seed/STOP"; done
for member in 0 1; do expect_state "${array}_$member" COMPLETED 90; done
[ "$(grep -c ': 1 ranks of 1 threads' "$dir/array.0.log")" = 1 ] || fail "the first member of the array was started twice"

# 5. A job that is cancelled saves, and is not requeued.
job=$(submit cancelled "${one[@]}" -- --set run.steps=100000000)
expect_beyond cancelled 20
scancel "$job"
expect_state "$job" CANCELLED 30
expect_log cancelled 'SIGTERM on rank 0: stopped after step'

# 6. Starts that bring nothing do not go on for ever. The first is a launch that fails, and of which srun says 0: Weft left no deck, nor
# even its directory.
cat >"$dir/stuck" <<'SH'
#!/bin/sh
run=$(dirname "$0")/stuck.run
if [ "$1" = train ]; then
  [ -e "$run.was_here" ] && exit 75
  touch "$run.was_here"
  exit 0
fi
printf '[run]\ndir = "%s"\n\n' "$run"
SH
chmod +x "$dir/stuck"
job=$(WEFT=$dir/stuck WEFT_STARTS=2 submit stuck "${one[@]}" --)
until_true 60 grep -q -s "job $job: requeued" "$dir/stuck.log" || fail "the first start that brought nothing is not followed by another"
expect_state "$job" PENDING 60
start_now "$job"
expect_state "$job" FAILED 30
expect_log stuck 'srun ended with 0, but Weft has not started'
expect_log stuck '2 starts in a row brought no new checkpoint (the newest: none)'

# 0. The job that ran beside the others has reached its limit.
expect_state "$limit" FAILED 60
expect_log limit 'SIGUSR1 on rank 0: stopped after step'

# 7. A job, a pipe with a stage on each node, is preempted by one of a partition with priority, which needs both nodes. It goes on with
# both stages on one of them.
job=$(submit preempted "${two[@]}" -- --set run.steps=$steps --set 'parallel.mesh={ pipe = 2 }')
expect_beyond preempted 100
urgent=$(sbatch --parsable --partition=urgent "${two[@]}" --exclusive --output="$dir/urgent.log" --wrap 'sleep 2')
expect_state "$job" PENDING 60
expect_log preempted 'SIGTERM on rank [01]: stopped after step'  # Slurm's signal
expect_state "$urgent" COMPLETED 180
start_now "$job" NumNodes=1 NumTasks=2
expect_state "$job" COMPLETED 240
[ "$(losses preempted)" = "$(losses whole)" ] || fail "the loss curve of the preempted run differs"

# 8. A tensor axis over two nodes is signalled, and goes on on one node, where its ranks share memory. Its bits depend on its size alone.
tensor=(--set "run.steps=$steps" --set 'parallel.mesh={ tensor = 2 }')
job=$(submit tensor "${two[@]}" -- "${tensor[@]}")
expect_beyond tensor 100
scancel --signal=USR1 "$job"
expect_state "$job" PENDING 60
expect_log tensor 'SIGUSR1 on rank [01]: stopped after step'
start_now "$job" NumNodes=1 NumTasks=2
expect_state "$job" COMPLETED 240
submit tensor-whole "${two[@]}" --wait -- "${tensor[@]}" >/dev/null || fail "the whole run of a tensor axis ended with status $?"
[ "$(losses tensor | wc -l)" = $steps ] || fail "metrics.jsonl has $(losses tensor | wc -l) of $steps steps"
[ "$(losses tensor)" = "$(losses tensor-whole)" ] || fail "the loss curve of the tensor axis differs"

echo "ok: $steps steps in three parts on 2, 1 and 2 ranks, and in two with a preemption between, have the losses of one part"
