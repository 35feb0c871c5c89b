#!/usr/bin/env python3
"""Weft's matrix products beside those of other libraries, in turn: GFLOP/s and ratios.

  perf/compare_products.py [--rounds 5] [--threads 1] [--seconds 0.3] [--models 33m odd] [--bench PROGRAM] [--onednn PREFIX]

Weft's side is bench_kernels (default: build/cpu/perf/bench_kernels). The libraries, each in a program of its own (perf/peers/products.cpp):
the oneDNN that the compiler finds by itself; that below PREFIX (default: 3.2, which jobs/prefix.sh fetches from PyPI; "none" for none); and libxsmm where the
system has it (Debian: libxsmm-dev), with operands that were packed before the clock runs. The number behind a library's rate is Weft's time
divided by the library's, the median of the rounds and their spread: above 1 the library is faster, which is marked. Other work on the
machine spoils the result.
"""
import argparse, json, os, statistics, subprocess, sys, tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PLACE = os.path.join(ROOT, "build/products")
SHAPES = {"33m": (2048, 512, 1536, 1024, 512), "8b": (8192, 4096, 14336, 6144, 4096), "odd": (999, 330, 1001, 660, 330)}  # rows, dim, ffn, qkv, heads
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--rounds", type=int, default=5)
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--seconds", type=float, default=0.3, help="of each product's repetitions in a round")
parser.add_argument("--models", nargs="+", default=["33m", "odd"], choices=SHAPES)
parser.add_argument("--bench", default="build/cpu/perf/bench_kernels")
parser.add_argument("--onednn", metavar="PREFIX")
a = parser.parse_args()
environment = {**os.environ, "OMP_NUM_THREADS": str(a.threads)}


def run(*command):
    done = subprocess.run(command, cwd=ROOT, env=environment, text=True, capture_output=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        sys.exit(f"compare_products.py: {' '.join(command)} ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def compiled(name, *options):
    program = os.path.join(PLACE, name)
    run(os.environ.get("CXX", "c++"), "-std=c++20", "-O2", "-fopenmp", "perf/peers/products.cpp", "-o", program, *options)
    return program


def libraries():
    os.makedirs(PLACE, exist_ok=True)
    yield compiled("system_onednn", "-DWITH_ONEDNN", "-ldnnl")
    if a.onednn != "none":
        prefix = os.path.abspath(a.onednn or os.path.join(PLACE, "onednn"))
        if not a.onednn:
            run("jobs/prefix.sh", prefix, "onednn")
        yield compiled("other_onednn", "-DWITH_ONEDNN", f"-I{prefix}/include", f"-L{prefix}/lib", "-ldnnl", f"-Wl,-rpath,{prefix}/lib")
    if os.path.exists("/usr/include/libxsmm.h"):
        yield compiled("libxsmm", "-DWITH_LIBXSMM", "-lxsmm", "-lxsmmnoblas", "-ldl", "-lpthread", "-lrt")


def weft():
    with tempfile.NamedTemporaryFile("r", encoding="utf-8", suffix=".json") as file:
        run(a.bench, f"--benchmark_filter=^matmul_.*/({'|'.join(a.models)})/", f"--benchmark_min_time={a.seconds}", "--benchmark_out_format=json",
            f"--benchmark_out={file.name}")
        return {line["name"].removesuffix("/real_time"): line["real_time"] for line in json.load(file)["benchmarks"]}


def flop(name):
    what, model, _ = name.removeprefix("matmul_").split("/")
    rows, dim, ffn, qkv, heads = SHAPES[model]
    sizes = {"qkv": (dim, qkv), "proj": (heads, dim), "gate_up": (dim, 2 * ffn), "down": (ffn, dim)}[what.removesuffix("_dgrad").removesuffix("_wgrad")]
    return 2 * rows * sizes[0] * sizes[1]


programs = list(libraries())
rounds = []
for _ in range(a.rounds):
    rounds.append([weft(), *(json.loads(run(program, str(a.seconds), *a.models)) for program in programs)])
versions = [side.pop("library") for side in rounds[0][1:]]
for later in rounds[1:]:
    for side in later[1:]:
        del side["library"]
print(f"GFLOP/s, {a.threads} thread{'s' * (a.threads > 1)}, medians of {a.rounds} rounds\n")
print("| product | Weft | " + " | ".join(versions) + " |\n|---|---:" + "|---:" * len(versions) + "|")
for kind in "f32", "bf16":
    for name in (n for n in rounds[0][1] if n.endswith("/" + kind)):
        rate = lambda side: statistics.median(flop(name) / r[side][name] / 1e6 for r in rounds)
        cells = []
        for side in range(1, len(versions) + 1):
            shares = sorted(r[0][name] / r[side][name] for r in rounds)
            share = f"{statistics.median(shares):.2f}"
            cells.append(f"{rate(side):.0f}: {f'**{share}**' if float(share) > 1 else share} ({shares[0]:.2f} to {shares[-1]:.2f})")
        print(f"| {name.removeprefix('matmul_')} | {rate(0):.0f} | " + " | ".join(cells) + " |")
