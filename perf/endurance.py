#!/usr/bin/env python3
"""Long runs of a tiny model on two ranks: whether memory grows, and whether a run that was started a hundred times is one run.

  perf/endurance.py steps [--steps 10000] [--every 500]
      The slope of resident memory (rss_bytes of metrics.jsonl, least squares, without the first 500 steps) over a run that saves now and
      then, at step 0 for the first time; MiB over the run. From 1 MiB on it ends with 1.
  perf/endurance.py restarts [--restarts 100]
      Each start resumes, does two steps and saves. Losses, gradient norms and state hashes are those of a run without interruption; the
      run directory has no more files than after the third start (but TensorBoard's, one a start), and /dev/shm none that was not there.

As root, both have a /dev/shm of their own, so that nobody else's files are counted. WEFT: the program (default: build/cpu/weft).
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WEFT = os.environ.get("WEFT", "build/cpu/weft")
WARM = 500
DECK = ["model.dim=32", "model.layers=2", "model.heads=2", "model.kv_heads=1", "model.ffn=64", "model.vocab=64", "data.seq=16", "data.batch=2",
        "data.global_batch=4", "precision.params=f32", "log.progress=false", "log.tensorboard=true"]


def train(folder, *sets):
    """The lines of kind train in metrics.jsonl."""
    command = ["mpirun", "-n", "2", WEFT, "train", "inputs/bench_33m.toml"]
    for value in (*DECK, f"run.dir={folder}", *sets):
        command += ["--set", value]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, text=True, capture_output=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        sys.exit(f"endurance.py: {' '.join(command)} ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    with open(f"{folder}/metrics.jsonl") as file:
        return [r for r in map(json.loads, file) if r["kind"] == "train"]


def slope(points):
    """The slope of y by x, by least squares."""
    x0, y0 = (sum(values) / len(points) for values in zip(*points))
    return sum((x - x0) * (y - y0) for x, y in points) / sum((x - x0) ** 2 for x, _ in points)


def steps(folder):
    lines = train(folder, f"run.steps={a.steps}", f"checkpoint.every={a.every}", "checkpoint.initial=true", "checkpoint.final=true")
    points = [(r["step"], r["rss_bytes"] / 2**20) for r in lines if r["step"] > WARM]
    growth = slope(points) * (points[-1][0] - points[0][0])
    memory = [y for _, y in points]
    print(f"{a.steps} steps, a save every {a.every}: resident memory {growth:+.3f} MiB by its slope after step {WARM}; "
          f"{memory[0]:.2f} MiB there, {memory[-1]:.2f} at the end, at most {max(memory):.2f}")
    return growth < 1


def files(folder):
    return sorted(os.path.join(at, name) for at, _, names in os.walk(folder) for name in names if not name.startswith("events.out"))


def shared():
    return sorted(os.listdir("/dev/shm"))


def curve(lines):
    return [(r["step"], r["loss"], r["grad_norm"], r["state_hash"]) for r in lines]


def restarts(folder):
    every_start = ["checkpoint.resume=auto", "checkpoint.final=true", "checkpoint.keep=2", "checkpoint.every=2", "debug.hash_every=1"]
    whole = train(f"{folder}/whole", f"run.steps={2 * a.restarts}", *every_start)
    before, third, lines = shared(), [], []
    for start in range(1, a.restarts + 1):
        lines = train(f"{folder}/parts", f"run.steps={2 * start}", *every_start)
        if start == 3:
            third = files(f"{folder}/parts")
    last, left = files(f"{folder}/parts"), sorted(set(shared()) - set(before))
    equal = curve(lines) == curve(whole) and len(lines) == 2 * a.restarts
    print(f"{a.restarts} starts of two steps: the curve of {len(lines)} steps is {'that' if equal else 'NOT that'} of one run; {len(last)} files "
          f"({len(third)} after the third start); left in /dev/shm: {', '.join(left) or 'nothing'}")
    return equal and len(last) == len(third) and not left


def in_its_own_shared_memory():
    if os.geteuid() == 0 and "WEFT_ENDURANCE" not in os.environ:
        os.environ["WEFT_ENDURANCE"] = "1"
        os.execvp("unshare", ["unshare", "--mount", "--propagation", "private", "sh", "-c",
                              'mount -t tmpfs tmpfs /dev/shm && exec "$@"', "sh", sys.executable, *sys.argv])


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("what", choices=("steps", "restarts"))
parser.add_argument("--steps", type=int, default=10000)
parser.add_argument("--every", type=int, default=500)
parser.add_argument("--restarts", type=int, default=100)
a = parser.parse_args()
if a.steps < 2 * WARM:
    parser.error(f"--steps: the first {WARM} do not count; {2 * WARM} or more")
if a.restarts < 4:
    parser.error("--restarts: files are counted after the third; 4 or more")
in_its_own_shared_memory()
with tempfile.TemporaryDirectory() as here:
    sys.exit(0 if {"steps": steps, "restarts": restarts}[a.what](here) else 1)
