#!/usr/bin/env python3
"""What planning a training step takes, over layers, ranks and rounds of accumulation. Needs no other ranks.

  perf/planning.py [--runs N] [--set K=V]...

Prints a table of `weft plan` runs: user CPU seconds and wall-clock time of the process (the least of N runs), its peak resident
memory, nodes of the graph, instructions; and below, of each series, the exponent of user seconds and of nodes in what grows,
between its last two plans (small plans, below 5000 buffers, take longer: their arenas are searched for the last half percent).
Rounds of accumulation are held by data.global_batch = data.batch * ranks * rounds. $WEFT: the program (build/cpu/weft).
"""
import argparse, math, os, re, subprocess, sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WEFT = os.environ.get("WEFT", "build/cpu/weft")


def plan(deck, ranks, sets):
    """Runs `weft plan` once: user seconds, wall seconds, peak MiB, nodes, instructions."""
    command = [WEFT, "plan", f"inputs/{deck}.toml", "--world", str(ranks), *(x for s in sets for x in ("--set", s))]
    read, write = os.pipe()
    before = os.times().elapsed
    child = subprocess.Popen(command, cwd=ROOT, text=True, stdout=write, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    os.close(write)
    with open(read) as pipe:
        text = pipe.read()
    _, status, usage = os.wait4(child.pid, 0)  # the usage of this child alone
    wall = os.times().elapsed - before
    child.returncode = os.waitstatus_to_exitcode(status)
    found = re.search(r"^nodes: (\d+) .*, (\d+) instructions", text, re.M)
    if child.returncode != 0 or not found:
        sys.exit(f"planning.py: {' '.join(command)} ended with {child.returncode}:\n{text[-2000:]}")
    return usage.ru_utime, wall, usage.ru_maxrss / 1024, int(found[1]), int(found[2])


def batch_of(deck):
    with open(os.path.join(ROOT, "inputs", deck + ".toml")) as file:
        return int(re.search(r"^batch = ([\d_]+)", file.read(), re.M)[1])


# All decks on one axis, so that figures can be compared.
ONE_AXIS = ["parallel.mesh={ data = 0 }", "parallel.mode=fsdp", "schedule.recompute=none", "schedule.accumulate=each"]


def series(arguments, title, deck, points):
    """Plans over points of (what grows, ranks, rounds, options of the deck)."""
    rows = []
    for x, ranks, rounds, sets in points:
        sets = [*ONE_AXIS, *sets, f"data.global_batch={batch_of(deck) * ranks * rounds}", *arguments.set]
        runs = [plan(deck, ranks, sets) for _ in range(arguments.runs)]
        user, wall, memory = (min(r[i] for r in runs) for i in range(3))
        rows.append((x, user, *runs[0][3:]))
        print(f"| {deck} | {title} = {x} | {user:.2f} | {wall:.2f} | {memory:.0f} | {runs[0][3]} | {runs[0][4]} |", flush=True)
    (x0, user0, nodes0, _), (x1, user1, nodes1, _) = rows[-2:]
    return (f"{deck}, {title} {x0} to {x1}: user seconds go as the power {math.log(user1 / user0) / math.log(x1 / x0):.2f}, "
            f"nodes as {math.log(nodes1 / nodes0) / math.log(x1 / x0):.2f}")


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--runs", type=int, default=3, metavar="N", help="runs of each plan, the least of which counts")
parser.add_argument("--set", action="append", default=[], metavar="K=V")
arguments = parser.parse_args()
print("| deck | | user s | wall s | peak MiB | nodes | instructions |\n|---|---|---:|---:|---:|---:|---:|")
growth = [series(arguments, "layers", "llama3_8b", [(n, 64, 8, [f"model.layers={n}"]) for n in (8, 16, 32, 64, 126)])]
for deck in ("llama3_8b", "llama3_405b"):
    growth.append(series(arguments, "ranks", deck, [(n, n, 4, []) for n in (2, 8, 64, 512, 4096)]))
for deck in ("llama3_8b", "llama3_405b"):
    growth.append(series(arguments, "rounds", deck, [(n, 64, n, []) for n in (1, 2, 8, 32)]))
print("\n" + "\n".join(growth))
