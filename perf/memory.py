#!/usr/bin/env python3
"""Memory of whole jobs beside PyTorch's, as a control group counts it. Needs root; prints a line a measurement.

  perf/memory.py peaks [--ranks 2] [--pairs 3]
      The largest memory of a job of some steps on a state-heavy shape (many parameters, few tokens) and on an activation-heavy one
      (few parameters, many tokens), for Weft and the peers in turn. Of PyTorch's, what processes that only import it take is subtracted.
  perf/memory.py largest [--gib 4] [--ranks 1 2 4]
      The largest model, in layers of dim 1024, that trains two steps in so much memory a rank: each by bisection over real runs in
      a control group with that limit.
"""
import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WEFT = os.path.join(ROOT, "build/cpu/weft")
PEERS = ("fsdp2c", "simplefsdp")
SHAPES = {
    "state-heavy": dict(dim=1024, layers=8, heads=16, kv_heads=8, ffn=2816, vocab=8192, seq=128, batch=1),
    "activation-heavy": dict(dim=256, layers=8, heads=8, kv_heads=4, ffn=704, vocab=4096, seq=1024, batch=8),
}
LAYERED = dict(dim=1024, heads=16, kv_heads=8, ffn=2816, vocab=8192, seq=128, batch=1)
MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMP_NUM_THREADS": "1", "OMP_PROC_BIND": "false",
       "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_hwloc_base_binding_policy": "none"}


class ControlGroup:
    """A control group of version 1 or 2; it counts and limits the memory of what runs in it."""

    def __init__(self, limit=None):
        first = os.path.exists("/sys/fs/cgroup/memory/memory.limit_in_bytes")
        self.dir = f"/sys/fs/cgroup/{'memory/' if first else ''}weft-memory-{os.getpid()}"
        self.peak_file = os.path.join(self.dir, "memory.max_usage_in_bytes" if first else "memory.peak")
        limit_file = "memory.limit_in_bytes" if first else "memory.max"
        os.mkdir(self.dir)
        if limit:
            with open(os.path.join(self.dir, limit_file), "w") as file:
                file.write(str(limit))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for _ in range(50):  # the last processes may still be leaving
            try:
                return os.rmdir(self.dir)
            except OSError:
                time.sleep(0.1)

    def run(self, command):
        inside = ["sh", "-c", f"echo $$ > {self.dir}/cgroup.procs && exec \"$@\"", "sh", *command]
        return subprocess.run(inside, cwd=ROOT, env={**os.environ, **MPI}, capture_output=True, text=True, stdin=subprocess.DEVNULL)

    def peak(self):
        with open(self.peak_file) as file:
            return int(file.read())


def weft_job(shape, ranks, folder, more=()):
    run = os.path.join(folder, "run")
    shutil.rmtree(run, ignore_errors=True)
    sets = [f"model.{k}={shape[k]}" for k in ("dim", "layers", "heads", "kv_heads", "ffn", "vocab")]
    sets += [f"data.seq={shape['seq']}", f"data.batch={shape['batch']}", f"data.global_batch={shape['batch'] * ranks}", "data.synthetic=true",
             "run.steps=4", f"run.dir={run}", "checkpoint.final=false", "log.progress=false", *more]
    return ["mpirun", "-n", str(ranks), WEFT, "train", "inputs/bench_33m.toml", *[x for s in sets for x in ("--set", s)]]


def torchrun(python, ranks):
    return [python, "-m", "torch.distributed.run", "--nproc-per-node", str(ranks), "--master-port", "29577"]


def peer_job(python, mode, shape, ranks):
    sizes = [x for k in ("dim", "layers", "heads", "kv_heads", "ffn", "vocab", "seq", "batch") for x in (f"--{k}", str(shape[k]))]
    return [*torchrun(python, ranks), "perf/peers/torch_llama.py", "--mode", mode, "--steps", "4", "--skip", "1", *sizes]


def peak_of(command):
    with ControlGroup() as group:
        done = group.run(command)
        if done.returncode != 0:
            sys.exit(f"memory.py: {' '.join(command)} ended with {done.returncode}:\n{done.stderr[-2000:]}")
        return group.peak()


def text(values):
    mib = [v / (1 << 20) for v in values]
    return f"{statistics.median(mib):.0f} ({min(mib):.0f}-{max(mib):.0f}) MiB"


def peaks(a, python, folder):
    imports = os.path.join(folder, "imports.py")
    with open(imports, "w") as file:
        file.write("import torch, torch.distributed, torch._inductor\n")
    ranks = a.ranks[0]
    # This brings files into the page cache, so that they count for nobody below.
    peak_of([*torchrun(python, ranks), imports])
    alone = statistics.median(peak_of([*torchrun(python, ranks), imports]) for _ in range(3))
    print(f"{ranks} ranks; importing torch alone: {alone / (1 << 20):.0f} MiB", flush=True)
    for name, shape in SHAPES.items():
        rows = {}
        for mode in PEERS:
            peak_of(peer_job(python, mode, shape, ranks))  # this run compiles
        for _ in range(a.pairs):
            rows.setdefault("weft", []).append(peak_of(weft_job(shape, ranks, folder)))
            for mode in PEERS:
                rows.setdefault(mode, []).append(peak_of(peer_job(python, mode, shape, ranks)) - alone)
        best = min(statistics.median(rows[m]) for m in PEERS)
        print(f"{name}: " + ", ".join(f"{k} {text(v)}" for k, v in rows.items()) +
              f"; weft / best {statistics.median(rows['weft']) / best:.2f}", flush=True)


def largest_that(trains):
    """The number of layers of the largest model, found by doubling and bisection."""
    low, high = 0, 2
    while trains(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if trains(middle) else (low, middle)
    return low


def parameters(layers):
    s = LAYERED
    attention = s["dim"] * s["dim"] * 2 + 2 * s["dim"] * s["dim"] * s["kv_heads"] // s["heads"] + s["dim"]
    return layers * (attention + 3 * s["dim"] * s["ffn"] + s["dim"]) + 2 * s["vocab"] * s["dim"] + s["dim"]


def largest(a, python, folder):
    for ranks in a.ranks:
        limit = int(a.gib * ranks * (1 << 30))
        jobs = {"weft": lambda shape: weft_job(shape, ranks, folder, ["schedule.recompute=full"]),
                "fsdp2": lambda shape: peer_job(python, "fsdp2" if ranks > 1 else "single", shape, ranks)}
        for name, job in jobs.items():
            def trains(layers, job=job):
                with ControlGroup(limit) as group:
                    return group.run(job({**LAYERED, "layers": layers})).returncode == 0
            layers = largest_that(trains)
            print(f"{ranks} ranks of {a.gib:g} GiB: {name} {layers} layers, {parameters(layers) / 1e6:.0f} M parameters", flush=True)


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("what", choices=("peaks", "largest"))
parser.add_argument("--ranks", type=int, nargs="+")
parser.add_argument("--pairs", type=int, default=3)
parser.add_argument("--gib", type=float, default=4)
arguments = parser.parse_args()
arguments.ranks = arguments.ranks or ([2] if arguments.what == "peaks" else [1, 2, 4])
if os.geteuid() != 0:
    sys.exit("memory.py: making control groups needs root")
setup = subprocess.run(["perf/peers/setup.sh"], cwd=ROOT, text=True, capture_output=True, check=True).stdout.strip()
with tempfile.TemporaryDirectory() as scratch:
    {"peaks": peaks, "largest": largest}[arguments.what](arguments, setup, scratch)
