#!/usr/bin/env python3
"""Weak scaling on this machine, of Weft and of PyTorch beside it: the same sequences a rank on more and more ranks.

  perf/scaling.py [PEER...] [--ranks 1 2 4 8] [--hosts 2 4] [--rate 1gbit] [--deck D] [--batch B] [--pairs 5] [--steps 6] [--set K=V]...

PEER: ddpc, fsdp2c (both without a name; "none" for none), as in perf/peers/torch_llama.py; their one rank is singlec. --hosts: ranks on
so many emulated hosts (perf/two_hosts.sh, root only), joined by links of --rate; --hosts 0 for none. Ranks have one thread. More
ranks than cores take turns: such rows say (oversubscribed), and what they can reach at most is the row "apart" of as many ranks:
runs of one rank each at the same time, which never wait for each other.

Every round runs all of it once in turn. Efficiency is the tokens/s of a row over its ranks times those of one rank of the same
side in the same round; "of apart" is the tokens/s over those of the row "apart". Medians and spread over --pairs rounds.
WEFT: the program (default: build/cpu/weft). Other work on the machine spoils the result.
"""
import argparse, json, os, statistics, subprocess, sys, tempfile

from hosts import ROOT, SKIP, WEFT, peer_options, peers_python


def first_of_each_core(cpus, topology="/sys/devices/system/cpu"):
    """One of the hardware threads of each core, of these that the process may use."""
    first = {}
    for cpu in sorted(cpus):
        try:
            with open(f"{topology}/cpu{cpu}/topology/thread_siblings_list", encoding="ascii") as file:
                core = file.read().strip()
        except OSError:  # a system that does not tell
            core = cpu
        first.setdefault(core, cpu)
    return list(first.values())


CORES = first_of_each_core(os.sched_getaffinity(0))
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "OMP_PROC_BIND": "false", "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
               "OMPI_MCA_rmaps_base_oversubscribe": "1"}


def show(values, digits):
    return f"{statistics.median(values):7.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def start(command):
    return subprocess.Popen(command, cwd=ROOT, env=ENVIRONMENT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)


def finish(process):
    out, err = process.communicate()
    if process.returncode != 0:
        raise RuntimeError(f"{' '.join(process.args)} ended with {process.returncode}:\n{out[-2000:]}{err[-2000:]}")
    return out


def pinned(ranks):
    """Ranks take the cores in turn, so that no two of them are on one while another is idle."""
    return ["--bind-to", "core"] if ranks <= len(CORES) else ["--bind-to", "none"]


class Weft:
    def __init__(self, a, folder):
        self.a, self.folder, self.runs = a, folder, 0

    def command(self, ranks, sets=()):
        self.runs += 1
        run = os.path.join(self.folder, f"run-{self.runs}")
        sets = [f"data.batch={self.a.batch}", f"data.global_batch={self.a.batch * ranks}", f"run.steps={self.a.steps}", f"run.dir={run}",
                "log.progress=false", "checkpoint.final=false", *self.a.set, *sets]
        return [WEFT, "train", self.a.deck, *(x for s in sets for x in ("--set", s))], run

    def rate_of(self, run):
        with open(os.path.join(run, "metrics.jsonl")) as file:
            return statistics.median(r["tokens_per_s"] for r in [r for r in map(json.loads, file) if r["kind"] == "train"][SKIP:])

    def ranks(self, ranks):
        command, run = self.command(ranks)
        finish(start(["mpirun", "-n", str(ranks), *pinned(ranks), *command]))
        return self.rate_of(run)

    def apart(self, ranks):
        runs = [self.command(1) for _ in range(ranks)]
        processes = []
        try:
            for i, (command, _) in enumerate(runs):
                processes.append(start(["taskset", "-c", str(CORES[i % len(CORES)]), *command]))
            for process in processes:
                finish(process)
        finally:
            for process in processes:
                process.kill()  # where it still runs
                process.wait()
        return sum(self.rate_of(run) for _, run in runs)

    def hosts(self, hosts):
        profile = os.path.join(self.folder, f"machine-{hosts}.toml")
        if not os.path.exists(profile):
            finish(start(["perf/two_hosts.sh", "--hosts", str(hosts), self.a.rate, "--", WEFT, "profile", self.a.deck, "--set", f"data.batch={self.a.batch}",
                          "--set", f"data.global_batch={self.a.batch * hosts}", *(x for s in self.a.set for x in ("--set", s)), "--seconds", "15", "-o", profile]))
        command, run = self.command(hosts, [f"schedule.profile={profile}", "schedule.regather=auto"])
        finish(start(["perf/two_hosts.sh", "--hosts", str(hosts), self.a.rate, "--", *command]))
        return self.rate_of(run)


class Peer:
    def __init__(self, a, mode, python):
        self.a, self.mode, self.python = a, mode, python
        self.options = peer_options(a)

    def run(self, before, mode=None):
        command = [*before, "perf/peers/torch_llama.py", "--mode", mode or self.mode, *self.options]
        for attempt in range(3):  # PyTorch's compiled FSDP2 aborts now and then at its start
            try:
                return json.loads(finish(start(command)).strip().splitlines()[-1])["tok_s"]
            except (RuntimeError, json.JSONDecodeError, IndexError):
                if attempt == 2:
                    raise
                print(f"scaling.py: {mode or self.mode} of PyTorch failed; it runs again", file=sys.stderr, flush=True)

    def ranks(self, ranks):
        if ranks == 1:
            return self.run([self.python], "singlec")
        return self.run([self.python, "-m", "torch.distributed.run", "--nproc-per-node", str(ranks)])

    def hosts(self, hosts):
        return self.run(["perf/two_hosts.sh", "--hosts", str(hosts), "--torch", self.a.rate, "--", self.python])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peers", nargs="*", metavar="PEER", default=["ddpc", "fsdp2c"])
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--hosts", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--rate", default="1gbit")
    parser.add_argument("--deck", default="inputs/bench_33m.toml")
    parser.add_argument("--batch", type=int, default=4, help="sequences a rank")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--steps", type=int, default=6, help=f"of a run; the first {SKIP} do not count")
    parser.add_argument("--set", action="append", default=[], metavar="K=V")
    a = parser.parse_args()
    if 1 not in a.ranks:
        parser.error("--ranks: what is shown are ratios to 1 rank")
    names = [name for name in a.peers if name != "none"]
    hosts = [h for h in a.hosts if h]
    with tempfile.TemporaryDirectory() as folder:
        weft = Weft(a, folder)
        sides = {"weft": weft}
        if names:
            python = peers_python()
            sides |= {name: Peer(a, name, python) for name in names}
        places = [("ranks", n, n) for n in sorted(a.ranks)] + [("hosts", n, n) for n in hosts]
        found = {}  # tokens/s of each round, by side, kind of place and number
        for _ in range(a.pairs):
            for kind, n, _ in places:
                for name, side in sides.items():
                    found.setdefault((name, kind, n), []).append(getattr(side, kind)(n))
                if kind == "ranks" and n > 1:
                    found.setdefault(("apart", kind, n), []).append(weft.apart(n))
                print("  ".join(f"{name} {n} {kind}: {rates[-1]:.0f}" for (name, k, m), rates in found.items() if (k, m) == (kind, n)), file=sys.stderr, flush=True)
        print(f"{a.deck}, {a.batch} sequences a rank, {' '.join(a.set)}, links of {a.rate}: tokens/s, efficiency, of apart; weft over the side")
        for kind, n, _ in places:
            note = " (oversubscribed)" if n > len(CORES) else ""
            for name in [*sides, "apart"]:
                rates = found.get((name, kind, n))
                if not rates:
                    continue
                one = found[("weft" if name == "apart" else name, "ranks", 1)]
                apart = found.get(("apart", "ranks", n))
                columns = [show(rates, 0), show([r / (n * o) for r, o in zip(rates, one)], 3),
                           show([r / p for r, p in zip(rates, apart)], 3) if apart else "",
                           show([w / r for w, r in zip(found[("weft", kind, n)], rates)], 2)]
                print(f"  {n} {kind}{note:18s} {name:8s} " + "  ".join(columns), flush=True)


if __name__ == "__main__":
    try:
        main()
    except RuntimeError as error:
        sys.exit(f"scaling.py: {error}")
