#!/usr/bin/env python3
"""Checkpoints under kills, power cuts, damage and other layouts, with the real program on perf/trials/tiny.toml.

  perf/checkpoints.py kills    [--kills 200] [--steps 40]       kill -9 of a rank or of all at random moments, then a start on 1 to 4 ranks
  perf/checkpoints.py power    [--states 1000] [--resumes 40]   what a disk may hold after a power cut, from a trace of the system calls
  perf/checkpoints.py damage   [--flips 1700] [--cuts 350]      flipped bits, truncated and swapped files: how each is found
  perf/checkpoints.py reshard  [--ranks 1 2 3 4 6 8] [--sample N] [--losses 40]   all pairs of ranks and modes, N of them
  perf/checkpoints.py memory   [--ranks 2]                      memory that loading takes beside the state
  perf/checkpoints.py faults   [--ranks 1 2] [--sample N] [--scenario fresh ...] [--phase save ...] [--calls fsync ...] [--errors EIO ...]
                                                                each system call on a file fails once
  perf/checkpoints.py disagree [--only WORD ...]                two ranks that were given different things: each key, file and program

Each prints a line for each thing that went wrong, then its figures; the exit status is 1 when anything went wrong: a checkpoint was lost, a
state was off the curve, a damage was not found, a fault was not told, a difference was not refused. 77: it cannot run here (also 1 where
WEFT_TEST_TOOLS is "all": there jobs/setup.sh --tests has installed what it needs). --seed repeats the choices (of kills: not the moments).
--keep DIR keeps what failed. WEFT: the program (default: build/cpu/weft), MPIRUN: its launcher, WEFT_FAULTS: the library libweft_faults.so
(default: tests/ beside WEFT).
"""
import argparse, sys

from trials import damage, disagree, faults, kills, memory, power, reshard, runs

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--dir", help="where runs are written (default: the temporary directory)")
parser.add_argument("--keep", metavar="DIR")
trials = parser.add_subparsers(dest="trial", required=True)

one = trials.add_parser("kills")
one.add_argument("--kills", type=int, default=200)
one.add_argument("--steps", type=int, default=40)
one = trials.add_parser("power")
one.add_argument("--states", type=int, default=1000)
one.add_argument("--resumes", type=int, default=40, help="of the states: those from which a run goes on")
one.add_argument("--ignore-syncs", nargs="+", choices=("file", "directory"), default=(),
                 help="as if these fsyncs did nothing: the trial must then find losses")
one = trials.add_parser("damage")
one.add_argument("--flips", type=int, default=1700)
one.add_argument("--cuts", type=int, default=350)
one.add_argument("--resumes", type=int, default=100, help="of these: those that a run is resumed with")
one = trials.add_parser("reshard")
one.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 3, 4, 6, 8])
one.add_argument("--sample", type=int, help="of the pairs; all without it")
one.add_argument("--losses", type=int, default=40, help="of the pairs: those that go on for 5 steps")
one = trials.add_parser("memory")
one.add_argument("--ranks", type=int, default=2)
one = trials.add_parser("faults")
one.add_argument("--ranks", type=int, nargs="+", default=[1])
one.add_argument("--sample", type=int, help="of the cases; all without it")
one.add_argument("--scenario", nargs="+", choices=[s.name for s in faults.SCENARIOS], default=[s.name for s in faults.SCENARIOS])
one.add_argument("--phase", nargs="+", choices=faults.PHASES, default=faults.PHASES)
one.add_argument("--calls", nargs="+", help="names of calls; all without it")
one.add_argument("--errors", nargs="+", choices=faults.ERRORS, default=faults.ERRORS)
one.add_argument("--jobs", type=int, default=2, help="cases at a time")
one = trials.add_parser("disagree")
one.add_argument("--only", nargs="+", metavar="WORD", help="rows whose names hold one of these")
arguments = parser.parse_args()

lacks = None
if arguments.trial == "power" and not power.can_trace():
    lacks = "there is no strace here, or it may not trace"
if arguments.trial == "faults" and not faults.can_inject():
    lacks = f"there is no {faults.LIBRARY} (build weft_faults)"
if lacks:
    print(f"{'FAILED' if runs.ALL_TOOLS else 'skipped'}: {lacks}")
    sys.exit(1 if runs.ALL_TOOLS else 77)
TRIALS = {"kills": kills.Kills, "power": power.Power, "damage": damage.Damage, "disagree": disagree.Disagree, "faults": faults.Faults, "reshard": reshard.Reshard, "memory": memory.Memory}
with runs.Place(arguments.dir) as place:
    sys.exit(0 if TRIALS[arguments.trial](place, arguments).go() else 1)
