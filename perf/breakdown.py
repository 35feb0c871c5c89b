#!/usr/bin/env python3
"""Where a step's time goes: each operation's calls, time, bytes and products, beside this machine's limits.

  perf/breakdown.py [DECK] [--ranks 2] [--threads 1] [--step 6] [--set K=V]... [--spans 15]
  perf/breakdown.py --trace TRACE.json --limits TRIAD_GBS F32_GFLOPS BF16_GFLOPS [--spans 15]   a trace that is there, of a bf16 run

Trains some steps of the deck (inputs/bench_33m.toml) and reads rank 0's lanes from the trace of one. Bound: the time of the operation's
products at the rate of the best large matmul, or of its least bytes at a triad's rate, whichever is longer; both limits are measured by
bench_kernels just before, in as many processes at once as there are ranks. "waiting": what is between kernels, above all for collectives.
--spans: a table before that one, of so many spans that take longest. A span is what one operation does in one kind of module ("layers.*.ffn") and in
one phase, over all layers and microbatches of the step. Products that differ in their FLOP, as those of a module's weights do, are spans apart.
WEFT: the program (default: build/cpu/weft). Needs build/cpu/perf/bench_kernels.
"""
import argparse, collections, heapq, json, os, re, subprocess, sys, tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WEFT = os.environ.get("WEFT", "build/cpu/weft")
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("deck", nargs="?", default="inputs/bench_33m.toml")
parser.add_argument("--ranks", type=int, default=2)
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--step", type=int, default=6)
parser.add_argument("--set", action="append", default=[], metavar="K=V")
parser.add_argument("--trace")
parser.add_argument("--limits", nargs=3, type=float)
parser.add_argument("--spans", type=int, default=0)
a = parser.parse_args()


def run(command):
    environment = {**os.environ, "OMP_NUM_THREADS": str(a.threads), "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    launched = ["mpirun", "-n", str(a.ranks), "--map-by", f"slot:PE={a.threads}", *command]
    done = subprocess.run(launched, cwd=ROOT, env=environment, text=True, capture_output=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        sys.exit(f"breakdown.py: {' '.join(launched)} ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def events_of(path):
    with open(path) as file:
        return [e for e in json.load(file)["traceEvents"] if e.get("ph") == "X" and e["pid"] == 0]


def add_up(kernels, key):
    """By key: the calls, their microseconds, bytes and FLOP."""
    rows = collections.defaultdict(lambda: [0, 0.0, 0, 0])
    for e in kernels:
        row = rows[key(e)]
        row[0] += 1
        row[1] += e["dur"]
        row[2] += e["args"].get("bytes", 0)
        row[3] += e["args"].get("flops", 0)
    return rows


def span_of(e):
    """Operation, path without the layer's number, phase, and FLOP of a call."""
    path = ".".join("*" if part.isdigit() else part for part in e["args"].get("path", "").split("."))
    return e["name"], path, e["args"].get("phase", ""), e["args"].get("flops", 0)


def print_spans(kernels, step_us):
    print(f"{'span':<28}{'module':<16}{'phase':<10}{'calls':>6}{'ms':>9}{'% step':>8}{'GFLOP a call':>14}{'TFLOP/s':>9}{'GB/s':>8}")
    rows = add_up(kernels, span_of)
    for span in heapq.nlargest(a.spans, rows, key=lambda span: rows[span][1]):
        (name, path, phase, flops_of_call), (calls, us, moved, products) = span, rows[span]
        rates = f"{flops_of_call / 1e9:14.3f}{products / us / 1e6:9.3f}" if products else " " * 23
        rates += f"{moved / us / 1e3:8.1f}" if moved else ""
        print(f"{name:<28}{path:<16}{phase:<10}{calls:>6}{us / 1e3:9.2f}{100 * us / step_us:8.1f}{rates}".rstrip())
    print()


if a.trace:
    triad, f32, bf16 = (x * 1e9 for x in a.limits)
    events, flops = events_of(a.trace), bf16
else:
    limits = re.search(r"triad ([\d.]+) GB/s, matmul f32 (\d+), bf16 (\d+)", run(["build/cpu/perf/bench_kernels", "--benchmark_filter=^none$"]))
    triad, f32, bf16 = (float(x) * 1e9 for x in limits.groups())
    with tempfile.TemporaryDirectory() as folder:
        sets = [*a.set, f"run.steps={a.step + 1}", f"run.dir={folder}/run", f"log.trace_step={a.step}", "log.progress=false",
                "checkpoint.final=false"]
        run([WEFT, "train", a.deck, *[x for k in sets for x in ("--set", k)]])
        events = events_of(f"{folder}/run/trace.json")
        with open(f"{folder}/run/deck.toml") as file:
            flops = bf16 if re.search(r'^params\s*=\s*"bf16"', file.read(), re.M) else f32

kernels = [e for e in events if e["tid"] == 0]
step_us = max(e["ts"] + e["dur"] for e in kernels) - min(e["ts"] for e in kernels)
print(f"triad {triad / 1e9:.1f} GB/s, matmul {flops / 1e9:.0f} GFLOP/s; a rank's step {step_us / 1e3:.1f} ms")
if a.spans > 0:
    print_spans(kernels, step_us)
print(f"{'operation':<28}{'calls':>6}{'ms':>9}{'% step':>8}{'GB/s':>8}{'GFLOP/s':>9}{'bound ms':>10}{'% bound':>9}")
operations, bound_total = add_up(kernels, lambda e: e["name"]), 0
for name, (calls, us, moved, products) in sorted(operations.items(), key=lambda r: -r[1][1]):
    bound = max(moved / triad, products / flops) * 1e6
    bound_total += bound
    rate = f"{products / us / 1e3:9.0f}" if products else " " * 9
    print(f"{name:<28}{calls:>6}{us / 1e3:9.2f}{100 * us / step_us:8.1f}{moved / us / 1e3:8.1f}{rate}{bound / 1e3:10.2f}{100 * bound / us:9.0f}")
explained = sum(e["dur"] for e in kernels)
print(f"{'waiting':<34}{(step_us - explained) / 1e3:9.2f}{100 * (1 - explained / step_us):8.1f}")
print(f"{'all kernels':<34}{explained / 1e3:9.2f}{100 * explained / step_us:8.1f}{'':17}{bound_total / 1e3:10.2f}{100 * bound_total / explained:9.0f}")
