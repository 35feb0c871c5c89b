#!/usr/bin/env python3
"""Weft's kernels beside PyTorch's, in turn: milliseconds and ratios.

  perf/compare_kernels.py [--rounds 3] [--threads 1] [--models 33m odd] [--device cpu|cuda] [--bench PROGRAM] [--python PYTHON]

Runs bench_kernels (default: build/cpu/perf/bench_kernels) and perf/peers/torch_kernels.py alternately; the median of the rounds, and the
ratio PyTorch / Weft with its spread. Below 1 Weft is slower: such lines are marked. Other work on the machine spoils the result.
Lines of bench_kernels go to stderr as they come.
--device: PyTorch's; it is for --bench to be a program of the same. --python: one with PyTorch (default: that of perf/peers/setup.sh).
--libraries: folders that the program finds shared libraries in.
"""
import argparse, json, os, statistics, subprocess, sys, tempfile

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


def run(*command, aloud=False, **more):
    """What a command says, without its stderr; aloud: each line goes to stderr, too, as it comes."""
    with tempfile.TemporaryFile("w+", encoding="utf-8") as errors, \
         subprocess.Popen(command, cwd=ROOT, env={**environment, **more}, text=True, stdout=subprocess.PIPE, stderr=errors,
                          stdin=subprocess.DEVNULL) as process:
        lines = []
        for line in process.stdout:
            lines.append(line)
            if aloud:
                print(line, end="", file=sys.stderr, flush=True)
        if process.wait() != 0:
            errors.seek(0)
            sys.exit(f"compare_kernels.py: {' '.join(command)} ended with {process.returncode}:\n{''.join(lines)[-2000:]}{errors.read()[-2000:]}")
    return "".join(lines)


def weft():
    libraries = {"LD_LIBRARY_PATH": a.libraries} if a.libraries else {}
    with tempfile.NamedTemporaryFile("r", encoding="utf-8", suffix=".json") as file:
        # Aloud, because a machine that is lent may be taken back before the end.
        run(a.bench, f"--benchmark_filter=/({'|'.join(a.models)})/", "--benchmark_out_format=json", f"--benchmark_out={file.name}",
            aloud=True, **libraries)
        return {line["name"].removesuffix("/real_time"): line["real_time"] for line in json.load(file)["benchmarks"]}


def torch():
    result = {}
    for model in a.models:  # a process each: what is compiled for one shape is not tried on another
        out = run(python, "perf/peers/torch_kernels.py", "--threads", str(a.threads), "--device", a.device,
                  "--seconds", str(a.seconds), "--models", model)
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
