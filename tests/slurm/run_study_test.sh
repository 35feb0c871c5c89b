#!/usr/bin/env bash
# Runs a study's cells as job arrays of a real Slurm of two nodes on this machine: the first call submits, a later one finds the figures.
# Ends with 77 ("skipped: ...") where there can be no Slurm. WEFT names the program.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
export WEFT=${WEFT:-$PWD/build/cpu/weft}

# shellcheck source=tests/slurm/cluster.sh
. tests/slurm/cluster.sh
cluster_open

cat >"$dir/study.toml" <<STUDY
dir = "$dir/out"
launch = "jobs/launch.sh -n {ranks} --threads 1 --"
sbatch = ["--time=5"]
[[part]]
how = "slurm"
deck = "tests/slurm/tiny.toml"
ranks = [1, 2]
[[part]]
how = "simulate"
machine = "h100"
deck = "tests/slurm/tiny.toml"
ranks = 2
STUDY

"$WEFT" study "$dir/study.toml" >"$dir/first.log" 2>&1
status=$?
[ $status = 75 ] || fail "the first call ended with $status, not 75 (jobs are under way)"
grep -q '^job .*: 1 cell of 2 ranks' "$dir/first.log" || fail "it does not say which jobs it submitted"
"$WEFT" study "$dir/study.toml" >"$dir/second.log" 2>&1
[ "$(squeue --noheader --array | wc -l)" -le 2 ] || fail "the second call submitted the same cells again"
until_true 200 bash -c '[ -z "$(squeue --noheader)" ]' || fail "the jobs do not end"
"$WEFT" study "$dir/study.toml" >"$dir/third.log" 2>&1 || fail "the last call ended with $?"
[ "$(grep -c ',done,' "$dir/out/table.csv")" = 3 ] || fail "table.csv does not have three cells that are done"
tail -n 20 "$dir/third.log"
echo "ok: two cells by jobs, one simulated"
