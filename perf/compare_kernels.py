#!/usr/bin/env python3
"""Weft's kernels beside PyTorch's, in turn: milliseconds and ratios.

  perf/compare_kernels.py [--rounds 3] [--threads 1] [--models 33m odd] [--device cpu|cuda] [--bench PROGRAM] [--python PYTHON]

Runs bench_kernels (default: build/cpu/perf/bench_kernels) and perf/peers/torch_kernels.py alternately; the median of the rounds, and the
ratio PyTorch / Weft with its spread. Below 1 Weft is slower: such lines are marked. Other work on the machine spoils the result.
Each kernel's line of both goes to stderr as it comes, because a machine that is lent may be taken back before the end.
--device: PyTorch's; it is for --bench to be a program of the same. --python: one with PyTorch (default: that of perf/peers/setup.sh).
--libraries: folders that the program finds shared libraries in.
"""
import argparse, concurrent.futures, json, os, statistics, subprocess, sys, tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--rounds", type=int, default=3)
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--models", nargs="+", default=["33m", "odd"], choices=("33m", "8b", "odd"))
parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
parser.add_argument("--bench", default="build/cpu/perf/bench_kernels")
parser.add_argument("--python")
parser.add_argument("--libraries")
parser.add_argument("--seconds", type=float, default=1.0, help="of PyTorch's repetitions of a kernel")
a = parser.parse_args()
environment = {**os.environ, "OMP_NUM_THREADS": str(a.threads)}


def lines_of(stream, aloud):
    """All lines of a stream; aloud: each goes to stderr, too, as it comes."""
    lines = []
    for line in stream:
        lines.append(line)
        if aloud:
            print(line, end="", file=sys.stderr, flush=True)
    return "".join(lines)


def run(*command, aloud=None, **more):
    """What a command says on stdout. aloud: "stdout" or "stderr", whose lines go to stderr as they come, too."""
    with subprocess.Popen(command, cwd=ROOT, env={**environment, **more}, encoding="utf-8", errors="replace", stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process, \
         concurrent.futures.ThreadPoolExecutor() as beside:
        errors = beside.submit(lines_of, process.stderr, aloud == "stderr")
        said = lines_of(process.stdout, aloud == "stdout")
        if process.wait() != 0:
            sys.exit(f"compare_kernels.py: {' '.join(command)} ended with {process.returncode}:\n{said[-2000:]}{errors.result()[-2000:]}")
    return said


def weft():
    libraries = {"LD_LIBRARY_PATH": a.libraries} if a.libraries else {}
    with tempfile.NamedTemporaryFile("r", encoding="utf-8", suffix=".json") as file:
        run(a.bench, f"--benchmark_filter=/({'|'.join(a.models)})/", "--benchmark_out_format=json", f"--benchmark_out={file.name}",
            aloud="stdout", **libraries)
        return {line["name"].removesuffix("/real_time"): line["real_time"] for line in json.load(file)["benchmarks"]}


def torch():
    result = {}
    for model in a.models:  # a process each: what is compiled for one shape is not tried on another
        out = run(python, "perf/peers/torch_kernels.py", "--threads", str(a.threads), "--device", a.device,
                  "--seconds", str(a.seconds), "--models", model, aloud="stderr")
        result |= json.loads(out.splitlines()[-1])
    return result


python = a.python or run("perf/peers/setup.sh").strip()
rounds = [(weft(), torch()) for _ in range(a.rounds)]
print(f"{'':42}{'Weft ms':>10}{'PyTorch ms':>12}   PyTorch / Weft")
for name in rounds[0][1]:
    ours, theirs = ([r[side][name] for r in rounds] for side in (0, 1))
    ratios = [t / w for w, t in zip(ours, theirs)]
    print(f"{name:42}{statistics.median(ours):10.3f}{statistics.median(theirs):12.3f}   {statistics.median(ratios):.2f} ({min(ratios):.2f} to "
          f"{max(ratios):.2f}){'   slower' if statistics.median(ratios) < 1 else ''}")
