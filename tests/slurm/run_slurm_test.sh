#!/usr/bin/env bash
# Submits jobs/train.sbatch with a tiny deck to a real Slurm of two nodes on this machine; checks that two ranks trained all steps.
# Ends with 77 ("skipped: ...") where there can be no Slurm. WEFT names the program.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
export WEFT=${WEFT:-$PWD/build/cpu/weft}

# shellcheck source=tests/slurm/cluster.sh
. tests/slurm/cluster.sh
cluster_open

steps=$(sed -n 's/^steps = //p' tests/slurm/tiny.toml)
timeout 150 sbatch --wait --nodes=2 --ntasks-per-node=1 --cpus-per-task=1 --output="$dir/job.log" \
  jobs/train.sbatch tests/slurm/tiny.toml --set run.dir="$dir/run" ||
  fail "the job ended with status $?"

done_steps=$(grep -c '"kind": *"train"' "$dir/run/metrics.jsonl" 2>/dev/null)
[ "${done_steps:-0}" = "$steps" ] || fail "metrics.jsonl has ${done_steps:-0} of $steps steps"
grep -q ': 2 ranks of 1 threads' "$dir/job.log" || fail "the job's log does not show two ranks"
tail -n 3 "$dir/job.log"
echo "ok: $steps steps on two nodes of a Slurm of our own"
