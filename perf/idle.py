#!/usr/bin/env python3
"""Idle time of a pipe on real ranks of this machine, beside what its schedule says.

  perf/idle.py [--ranks 2] [--microbatches 2 4 8 16] [--steps 4] [--rounds 2] [--deck inputs/bench_33m.toml] [--set K=V]...

A line for each schedule and number of microbatches: the step, the time in which the slowest rank waited for other stages (exposed_pipe_s of
metrics.jsonl), and that time over the step's other time; beside it the idle share of the timeline that `weft plan` shows, with the rates
that it assumes of a host (with --set schedule.profile=FILE those that `weft profile` measured on this machine). One thread a rank. The rounds take turns; medians, the first step left out. Ranks must have cores of their own.
"""
import argparse, json, os, re, statistics, subprocess, sys, tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WEFT = os.environ.get("WEFT", "build/cpu/weft")
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
SCHEDULES = (("gpipe", 1), ("1f1b", 1), ("interleaved", 2), ("zb_h1", 1), ("zbv", 2))


def call(command):
    done = subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, text=True, capture_output=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        sys.exit(f"idle.py: {' '.join(command)} ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def settings(schedule, chunks, microbatches):
    sets = ["precision.params=f32", "precision.grad_wire=f32", f"parallel.mesh={{ pipe = {a.ranks} }}", "data.batch=1",
            f"data.global_batch={microbatches}", f"pipeline.schedule={schedule}", f"pipeline.chunks={chunks}", *a.set]
    return [x for s in sets for x in ("--set", s)]


def run(sets):
    """The median step, and the median wait for other stages."""
    with tempfile.TemporaryDirectory() as folder:
        call(["mpirun", "-n", str(a.ranks), "--map-by", "slot:PE=1", WEFT, "train", a.deck, *sets, "--set", f"run.dir={folder}/run",
              "--set", f"run.steps={a.steps}", "--set", "log.progress=false"])
        with open(f"{folder}/run/metrics.jsonl") as file:
            lines = [r for r in map(json.loads, file) if r["kind"] == "train"][1:]
    return statistics.median(r["step_s"] for r in lines), statistics.median(r["exposed_pipe_s"] for r in lines)


def planned(sets):
    """The largest idle share of a rank's step, as the plan draws it."""
    text = call([WEFT, "plan", a.deck, "--world", str(a.ranks), *sets])
    rows = text[text.index("\npipe: "):].splitlines()
    return max(float(found.group(1)) for row in rows if (found := re.search(r" (\d+\.\d)% ", row))) / 100


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--ranks", type=int, default=2)
parser.add_argument("--microbatches", type=int, nargs="+", default=[2, 4, 8, 16])
parser.add_argument("--steps", type=int, default=4)
parser.add_argument("--rounds", type=int, default=2)
parser.add_argument("--deck", default="inputs/bench_33m.toml")
parser.add_argument("--set", action="append", default=[], metavar="K=V")
a = parser.parse_args()
cells = [(m, *s) for m in a.microbatches for s in SCHEDULES]
found = {cell: [] for cell in cells}
for _ in range(a.rounds):
    for cell in cells:
        found[cell].append(run(settings(cell[1], cell[2], cell[0])))
print(f"{'microbatches':>12s} {'schedule':12s} {'step, s':>8s} {'waits, s':>8s} {'of the rest':>11s} {'planned':>8s}")
for (microbatches, schedule, chunks), runs in found.items():
    step, waits = (statistics.median(column) for column in zip(*runs))
    idle = planned(settings(schedule, chunks, microbatches))
    print(f"{microbatches:12d} {schedule:12s} {step:8.3f} {waits:8.3f} {waits / (step - waits):11.3f} {idle / (1 - idle):8.3f}", flush=True)
