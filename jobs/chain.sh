#!/usr/bin/env bash
# Trains one deck in a chain of jobs, each of which starts when the one before ended without having finished:
#
#   jobs/chain.sh JOBS [SBATCH OPTION]... jobs/train.sbatch DECK [--set table.key=value]...
#
# For sites where jobs may not requeue themselves. A job that ends with the deck's steps done, or stopped by the file STOP, takes
# the rest of the chain with it; a job that ran out of time, was preempted, lost a node or failed is followed by the next, which goes
# on from the newest checkpoint. Prints the jobs' numbers.
set -euo pipefail

if [ $# -lt 3 ] || ! [[ $1 =~ ^[1-9][0-9]*$ ]]; then
  echo "chain: usage: jobs/chain.sh JOBS [SBATCH OPTION]... jobs/train.sbatch DECK [--set table.key=value]..." >&2
  exit 2
fi
jobs=$1
shift
export WEFT_REQUEUE=no

# submit ARGUMENT...: prints the job's number; with --clusters sbatch says NUMBER;CLUSTER.
submit() { sbatch --parsable "$@" | sed 's/;.*//'; }

job=$(submit "$@")
echo "$job"
before=$job
for ((i = 1; i < jobs; ++i)); do
  # After all before it: one that Slurm took out of the chain has ended "not ok", too.
  job=$(submit --dependency="afternotok:$before" --kill-on-invalid-dep=yes "$@")
  echo "$job"
  before+=:$job
done
