#!/usr/bin/env python3
"""Memory of whole jobs beside PyTorch's, as a control group counts it. Needs root; prints a line a measurement.

  perf/memory.py peaks [--ranks 2] [--pairs 3]
      The largest memory of a job of some steps on a state-heavy shape (many parameters, few tokens) and on an activation-heavy one
      (few parameters, many tokens), for Weft and the peers in turn. Of PyTorch's, what processes that only import it take is subtracted.
  perf/memory.py largest [--gib 4] [--ranks 1 2 4]
      The largest model, in layers of dim 1024, that trains four steps in so much memory a rank: each by bisection over real runs in
      a control group with that limit, without swap. A job does not fit when the kernel killed one of its processes for memory, or Weft
      refused it for that; any other failure ends the measurement.
WEFT: the program (default: build/cpu/weft).
"""
import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from hosts import ROOT, WEFT, peers_python

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

    def __init__(self, limit=None, root="/sys/fs/cgroup"):
        first = os.path.exists(f"{root}/memory/memory.limit_in_bytes")
        self.dir = f"{root}/{'memory/' if first else ''}weft-memory-{os.getpid()}"
        self.peak_file = os.path.join(self.dir, "memory.max_usage_in_bytes" if first else "memory.peak")
        self.events_file = os.path.join(self.dir, "memory.oom_control" if first else "memory.events")
        os.mkdir(self.dir)
        try:
            if limit:
                self.set("memory.limit_in_bytes" if first else "memory.max", limit)
                # Version 1 limits memory and swap together. Where swap is not counted, there must be none.
                swap = "memory.memsw.limit_in_bytes" if first else "memory.swap.max"
                if os.path.exists(os.path.join(self.dir, swap)):
                    self.set(swap, limit if first else 0)
                elif has_swap():
                    sys.exit(f"memory.py: {self.dir} has no {swap}, so that jobs would swap; turn swap off (swapoff -a)")
        except BaseException:
            self.remove()
            raise

    def set(self, name, value):
        with open(os.path.join(self.dir, name), "w") as file:
            file.write(str(value))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.remove()

    def remove(self):
        for _ in range(50):  # the last processes may still be leaving
            try:
                return os.rmdir(self.dir)
            except OSError:
                time.sleep(0.1)

    def killed(self):
        """How many processes the kernel killed because the memory was at its limit."""
        with open(self.events_file) as file:
            return int(dict(line.split() for line in file).get("oom_kill", 0))

    def run(self, command):
        inside = ["sh", "-c", f"echo $$ > {self.dir}/cgroup.procs && exec \"$@\"", "sh", *command]
        return subprocess.run(inside, cwd=ROOT, env={**os.environ, **MPI}, capture_output=True, text=True, stdin=subprocess.DEVNULL)

    def peak(self):
        with open(self.peak_file) as file:
            return int(file.read())


def has_swap():
    with open("/proc/swaps") as file:
        return len(file.readlines()) > 1


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
    """The number of layers of the largest model, found by doubling and bisection; 0 if not even one layer trains."""
    low, high = 0, 2
    while trains(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if trains(middle) else (low, middle)
    return low


def fits(done, killed):
    """Whether a job that ended so fitted into its memory. Ends the program where it failed for another reason."""
    if done.returncode == 0:
        return True
    # In these words Weft refuses a run that its host has no memory for (src/runtime/preflight.cpp).
    if killed or "not enough memory: the run" in done.stderr:
        return False
    sys.exit(f"memory.py: {' '.join(done.args)} ended with {done.returncode}, and not for want of memory:\n{done.stderr[-2000:]}")


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
                    done = group.run(job({**LAYERED, "layers": layers}))
                    return fits(done, group.killed())
            layers = largest_that(trains)
            if layers == 0:
                sys.exit(f"memory.py: {name}: not one layer trains on {ranks} ranks of {a.gib:g} GiB; give it more (--gib)")
            print(f"{ranks} ranks of {a.gib:g} GiB: {name} {layers} layers, {parameters(layers) / 1e6:.0f} M parameters", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("peaks", "largest"))
    parser.add_argument("--ranks", type=int, nargs="+")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--gib", type=float, default=4)
    a = parser.parse_args()
    a.ranks = a.ranks or ([2] if a.what == "peaks" else [1, 2, 4])
    if os.geteuid() != 0:
        sys.exit("memory.py: making control groups needs root")
    python = peers_python()
    with tempfile.TemporaryDirectory() as folder:
        {"peaks": peaks, "largest": largest}[a.what](a, python, folder)


if __name__ == "__main__":
    main()
