#!/usr/bin/env python3
"""Weft on several hosts of this machine (perf/two_hosts.sh), root only:

  perf/hosts.py hidden RATE... [--hosts N] [--deck D] [--set K=V]...
      How much communication is hidden at each rate: (compute + wire - step) / min(compute, wire). wire: bytes that crossed the
      interface a step over the link's rate, measured in the same run; compute: the step over links without a limit. Beside it
      the plan's prediction.
  perf/hosts.py peers RATE [PEER...] [--hosts N] [--deck D] [--set K=V]...
      tokens/s of a rank a host beside PyTorch's: ddpc, fsdp2c, fsdp2c-keep (not gathering again), simplefsdp.
  perf/hosts.py pipe RATE [PEER...] [--microbatch B] [--set K=V]...
      tokens/s of a pipe over all hosts (1f1b, B sequences a microbatch) beside fsdp and ddp of Weft, and beside PyTorch's peers
      (fsdp2c, unless others are named; "none" for none), of the same sequences a step; on more than two hosts without peers.
  perf/hosts.py plans RATE... [--hosts N] [--ranks-per-host R] [--others "K=V ..."...] [--deck D] [--set K=V]...
      Plan regret: the step of the automatic plan over the best of others (some twenty, or those named), all measured, the best
      ones twice; and their predictions.
  perf/hosts.py meshes RATE... [--hosts N] [--ranks-per-host R] [--deck D] [--set K=V]...
      Mesh regret: the step on the mesh that `weft advise` chooses (with mode, microbatch and recomputation) over the best of all
      meshes of these ranks, all measured, the best ones twice; and their predictions. The others are all sizes of replica, data, pipe,
      context and tensor (within a host), with fsdp, zero2 and ddp, microbatches of 1 and --batch sequences, 1f1b and zb_h1. Left out:
      zero1, the schedules gpipe, interleaved and zbv, other microbatches, recomputation, and other orders of the axes.
  perf/hosts.py passes RATE... [--hosts N] [--deck D] [--set K=V]...
      The step and the memory of a rank with the passes rows, head, order and memory off and nothing bucketed, then with one of these
      after another.
  perf/hosts.py modes RATE... [--hosts N] [--ranks-per-host R] [--deck D] [--set K=V]...
      ddp beside fsdp; with several ranks a host also fsdp without memory that they share.
  perf/hosts.py turns RATE... --axis tensor|context [--deck D] [--set K=V]...
      An axis over all hosts: the step and what is exposed of the axis' collectives, with nothing under them, with put-off weight
      gradients under them (hoist), and as the search chooses (microbatches in turns, too), two microbatches a step.

A rank has --threads threads and as many cores, PyTorch's, too. PyTorch trains the model of the resolved deck (`weft deck`).
Each rate is profiled first (weft profile on those links). Sides alternate, --pairs (5) rounds; medians and spread are shown.
Other work on the machine spoils the result.
"""
import argparse, functools, itertools, json, os, re, shlex, statistics, subprocess, sys, tempfile, tomllib

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WEFT = os.environ.get("WEFT", "build/cpu/weft")
SKIP = 2  # how many first steps do not count


def show(values, digits=3):
    return f"{statistics.median(values):8.{digits}f} ({min(values):.{digits}f} .. {max(values):.{digits}f})"


def call(command):
    done = subprocess.run(command, cwd=ROOT, text=True, capture_output=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        sys.exit(f"hosts.py: {' '.join(command)} ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    for line in done.stderr.splitlines():
        # Other figures were measured with another congestion control.
        if " for its congestion control" in line:
            print(line, file=sys.stderr)
    return done.stdout


class Hosts:
    def __init__(self, arguments, folder):
        self.a, self.folder, self.runs = arguments, folder, itertools.count()
        self.ranks = arguments.hosts * arguments.ranks_per_host

    def on(self, rate, options, command):
        report = os.path.join(self.folder, "report.json")
        out = call(["perf/two_hosts.sh", "--hosts", str(self.a.hosts), "--ranks-per-host", str(self.a.ranks_per_host), "--report", report,
                    *(["--cpu", str(self.a.cpu)] if self.a.cpu else []), *options, rate, "--", *command])
        with open(report) as file:
            return out, json.load(file)

    def sets(self, more=()):
        return [x for s in [*self.a.set, f"data.batch={self.a.batch}", f"data.global_batch={self.a.batch * self.ranks}", *more] for x in ("--set", s)]

    def profile(self, rate):
        path = os.path.join(self.folder, f"machine-{rate}.toml")
        self.on(rate, [], [WEFT, "profile", self.a.deck, *self.sets(), "--seconds", str(self.a.profile_seconds), "-o", path])
        return path

    def train(self, rate, sets, options=()):
        run = os.path.join(self.folder, f"run-{next(self.runs)}")
        steps = ["run.dir=" + run, f"run.steps={self.a.steps}", "log.progress=false", "checkpoint.final=false"]
        _, report = self.on(rate, list(options), [WEFT, "train", self.a.deck, *self.sets([*steps, *sets])])
        with open(os.path.join(run, "metrics.jsonl")) as file:
            lines = [r for r in map(json.loads, file) if r["kind"] == "train"][SKIP:]
        report["step"] = statistics.median(r["step_s"] for r in lines)
        report["tokens_per_s"] = statistics.median(r["tokens_per_s"] for r in lines)
        report["lines"] = lines
        report["rss"] = max(r["rss_bytes"] for r in lines)
        # One more is the rehearsal at start-up.
        report["sent"] = max(h["tx_bytes"] for h in report["hosts"]) / (self.a.steps + 1)
        return report

    def predicted(self, sets):
        out = call([WEFT, "plan", self.a.deck, "--world", str(self.ranks), "--ranks-per-host", str(self.a.ranks_per_host), *self.sets(sets)])
        return float(re.search(r"lanes overlapped.*\n\s+step\s+([0-9.]+)", out)[1])


def automatic(profile):
    return ["schedule.bucketing=auto", f"schedule.profile={profile}"]


def hidden(h):
    for rate in h.a.names:
        sets = automatic(h.profile(rate))
        rows = []
        for _ in range(h.a.pairs):
            free, slow = h.train("free", sets), h.train(rate, sets, ["--measure-link"])
            compute, wire = free["step"], slow["sent"] / slow["link_bytes_per_s"]
            rows.append((wire / compute, compute, wire, slow["step"], (compute + wire - slow["step"]) / min(compute, wire)))
        columns = list(zip(*rows))
        predicted = h.predicted(sets)
        print(f"{h.a.hosts} hosts, {rate}: wire/compute {show(columns[0], 2)}  compute {show(columns[1])} s  wire {show(columns[2])} s  "
              f"step {show(columns[3])} s, predicted {predicted:.3f}  hidden {show(columns[4], 2)}", flush=True)


def peers_python():
    """The python with the peers' packages, whose environment is made where there is none. What fails there is told there."""
    done = subprocess.run(["perf/peers/setup.sh"], cwd=ROOT, text=True, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        sys.exit(f"{os.path.basename(sys.argv[0])}: perf/peers/setup.sh ended with {done.returncode}; its reason stands above")
    return done.stdout.strip()


# What torch_llama.py always does: a deck that asks for something else has no peer.
ONLY_OF_PEERS = {"model.rope_theta": 500000.0, "model.norm_eps": 1e-5, "model.rope_scaling.factor": 1.0,
                 "data.document_mask": False, "optimizer.clip": 1.0, "precision.float8": []}


def resolved(a):
    """The deck with its --set, as Weft takes it: tables of all keys."""
    return tomllib.loads(call([WEFT, "deck", a.deck, *(x for s in a.set for x in ("--set", s))]))


def peer_options(a):
    """Shape, types, batch and steps of the resolved deck, as torch_llama.py takes them.

    Ends the program where that cannot do what the deck says."""
    deck = resolved(a)
    for key, value in ONLY_OF_PEERS.items():
        if (asked := functools.reduce(dict.__getitem__, key.split("."), deck)) != value:
            sys.exit(f"{os.path.basename(sys.argv[0])}: {a.deck}: {key} is {asked}, and PyTorch's side can do {value} only; "
                     "change it, or compare without peers")
    types, model = {"f32": "fp32", "bf16": "bf16"}, deck["model"]
    sizes = {name: model[name] for name in ("dim", "layers", "heads", "kv_heads", "ffn", "vocab")}
    return ["--dtype", types[deck["precision"]["params"]], "--reduce", types[deck["precision"]["grad_wire"]],
            "--tied", str(int(model["tie_embeddings"])), *(x for name, size in sizes.items() for x in ("--" + name, str(size))),
            "--seq", str(deck["data"]["seq"]), "--batch", str(a.batch), "--steps", str(a.steps + 1), "--skip", str(SKIP + 1)]


def peer_rate(h, rate, name, python, options):
    mode, *keep = name.split("-")
    command = [python, "perf/peers/torch_llama.py", "--mode", mode, *options, "--threads", str(h.a.threads),
               "--reshard", "0" if keep else "1"]
    for attempt in range(3):  # PyTorch's compiled FSDP2 aborts now and then at its start
        try:
            return json.loads(h.on(rate, ["--torch"], command)[0].strip().splitlines()[-1])["tok_s"]
        except (SystemExit, json.JSONDecodeError, IndexError):
            if attempt == 2:
                raise
            print(f"hosts.py: {name} of PyTorch failed; it runs again", file=sys.stderr, flush=True)


def peers(h):
    rate, *names = h.a.names
    names, options = names or ["ddpc", "fsdp2c", "fsdp2c-keep", "simplefsdp"], peer_options(h.a)
    python = peers_python()
    sets = [*automatic(h.profile(rate)), "schedule.regather=auto"]
    rows = {}
    for _ in range(h.a.pairs):
        for name in names:
            rows.setdefault(name, []).append((h.train(rate, sets)["tokens_per_s"], peer_rate(h, rate, name, python, options)))
    print(f"{h.a.hosts} hosts of {h.a.threads} threads, {rate}, {' '.join(h.a.set)}: tokens/s")
    for name, pairs in rows.items():
        mine, other = zip(*pairs)
        print(f"  weft {show(mine, 0)}  {name:12s} {show(other, 0)}  ratio {show([a / b for a, b in pairs], 2)}", flush=True)


def pipe(h):
    rate, *names = h.a.names
    names = (names or ["fsdp2c"]) if h.a.hosts == 2 and names != ["none"] else []
    options = peer_options(h.a) if names else None
    python = peers_python() if names else None
    profile = automatic(h.profile(rate))
    sides = {
        "pipe": [f"parallel.mesh={{ pipe = {h.a.hosts} }}", f"data.batch={h.a.microbatch}", "schedule.bucketing=none"],
        "fsdp": [*profile, "schedule.regather=auto"],
        "ddp": [*profile, "parallel.mode=ddp"],
    }
    rows, memory = {}, {}
    for _ in range(h.a.pairs):
        for name, sets in sides.items():
            run = h.train(rate, sets)
            rows.setdefault(name, []).append(run["tokens_per_s"])
            memory[name] = run["rss"] / 2**20
        for name in names:
            rows.setdefault(name, []).append(peer_rate(h, rate, name, python, options))
        print("  ".join(f"{name} {rates[-1]:.0f}" for name, rates in rows.items()), file=sys.stderr, flush=True)
    print(f"{h.a.hosts} hosts of {h.a.threads} threads, {rate}, {h.a.batch * h.ranks} sequences a step, {' '.join(h.a.set)}: "
          "tokens/s, pipe over the other, MiB of a rank")
    for name, rates in rows.items():
        ratios = [a / b for a, b in zip(rows["pipe"], rates)]
        print(f"  {name:12s} {show(rates, 0)}  {show(ratios, 2)}  {memory.get(name, 0):6.0f}", flush=True)


def plans(h):
    others = [f"schedule.bucketing={b} schedule.prefetch={p} schedule.reduce_delay={d}"
              for b, p, d in itertools.product(("none", "manual"), (1, 2, 4), (1, 2, 4))]
    others += ["schedule.bucketing=greedy", "schedule.bucketing=none schedule.prefetch=0", "schedule.bucketing=none schedule.prefetch=8 schedule.reduce_delay=8"]
    others = h.a.others or others
    for rate in h.a.names:
        print_regret(h, rate, h.profile(rate), "schedule.bucketing=auto", others)


def arrangements(ranks, ranks_per_host, batch):
    """The settings of each mesh, mode, microbatch and schedule that `meshes` measures, a text each."""
    found = []
    for pipe, context, tensor, replica in itertools.product(range(1, ranks + 1), repeat=4):
        data = ranks // (pipe * context * tensor * replica)
        if pipe * context * tensor * replica * data != ranks or tensor > ranks_per_host:
            continue
        sizes = {"replica": replica, "pipe": pipe, "context": context, "tensor": tensor}
        axes = ", ".join(f"{name} = {size}" for name, size in sizes.items() if size > 1)
        # With nothing to cut state over, all modes are one. ddp repeats state over the data axis, as a replica axis does.
        modes = ("fsdp",) if data * context == 1 else ("fsdp", "zero2", "ddp") if replica == 1 else ("fsdp", "zero2")
        schedules = ("1f1b", "zb_h1") if pipe > 1 else ("1f1b",)
        for mode, size, schedule in itertools.product(modes, sorted({1, batch}), schedules):
            found.append(f"parallel.mesh={{ {axes} }};parallel.mode={mode};data.batch={size};pipeline.schedule={schedule}")
    return found


def meshes(h):
    """The mesh that `weft advise` chooses, held against the meshes of the ranks."""
    for rate in h.a.names:
        profile = h.profile(rate)
        out = call([WEFT, "advise", h.a.deck, "--world", str(h.ranks), "--ranks-per-host", str(h.a.ranks_per_host), "--rows", "1",
                    *h.sets([f"schedule.profile={profile}"])])
        print(out, file=sys.stderr)
        words = shlex.split(out.strip().splitlines()[-1])
        print_regret(h, rate, profile, ";".join(words[1::2]), arrangements(h.ranks, h.a.ranks_per_host, h.a.batch))


def print_regret(h, rate, profile, chosen, others):
    """Sets of a plan are apart by ';', or by spaces where no value has one."""
    def split(sets):
        return sets.split(";") if ";" in sets else sets.split()

    def measured(plans, rounds):
        times = {}
        for _ in range(rounds):
            for sets in plans:
                times.setdefault(sets, []).append(h.train(rate, [*split(sets), f"schedule.profile={profile}"])["step"])
        return times

    times = measured([chosen, *others], h.a.pairs)
    ranked = sorted(others, key=lambda s: statistics.median(times[s]))
    # The least of twenty medians is also low by chance, so the best ones are measured once more.
    final = measured([chosen, *ranked[:3]], 2 * h.a.pairs)
    seconds = {s: statistics.median(t) for s, t in final.items()}
    print(f"{h.a.hosts} hosts of {h.a.ranks_per_host}, {rate}: {len(times)} plans, {statistics.median(times[ranked[0]]):.3f} to "
          f"{statistics.median(times[ranked[-1]]):.3f} s; the best once more:")
    for sets, values in final.items():
        predicted = h.predicted([*split(sets), f"schedule.profile={profile}"])
        print(f"  {sets:70s} {show(values)} predicted {predicted:.3f}")
    print(f"  regret {seconds[chosen] / min(seconds.values()):.3f}", flush=True)


def passes(h):
    """These passes off and nothing bucketed, then on one after another."""
    off = ["rows", "head", "order", "memory"]
    unbucketed = ["schedule.bucketing=none"]
    for rate in h.a.names:
        found = automatic(h.profile(rate))
        stages = [("these off", unbucketed)]
        stages += [("+ " + name, unbucketed) for name in ("memory", "rows", "head", "order")]
        stages += [("+ bucket (auto)", found), ("+ regather = auto", [*found, "schedule.regather=auto"]),
                   ("+ recompute = selective", [*found, "schedule.regather=auto", "schedule.recompute=selective"])]
        rows = {}
        for _ in range(h.a.pairs):
            disabled = set(off)
            for name, sets in stages:
                disabled.discard(name.removeprefix("+ "))
                quoted = ",".join(f'"{p}"' for p in sorted(disabled))
                report = h.train(rate, [*sets, f"schedule.disable=[{quoted}]"])
                rows.setdefault(name, []).append((report["step"], report["rss"] / (1 << 20)))
        print(f"{h.a.hosts} hosts, {rate}: step s, memory of a rank MiB")
        for name, values in rows.items():
            seconds, memory = zip(*values)
            print(f"  {name:26s} {show(seconds)}  {statistics.median(memory):.0f}", flush=True)


def modes(h):
    """Sharded beside replicated parameters, and with memory shared inside a host or not."""
    sides = {"ddp": ["parallel.mode=ddp"], "fsdp": ["schedule.regather=auto"]}
    if h.a.ranks_per_host > 1:
        sides["fsdp, not shared"] = [*sides["fsdp"], "schedule.disable=share"]
    for rate in h.a.names:
        found, rows = automatic(h.profile(rate)), {}
        for _ in range(h.a.pairs):
            for name, sets in sides.items():
                report = h.train(rate, [*found, *sets])
                rows.setdefault(name, []).append((report["step"], report["rss"] / (1 << 20), report["sent"] / (1 << 20)))
        print(f"{h.a.hosts} hosts of {h.a.ranks_per_host}, {rate}: step s, memory of a rank MiB, sent by a host MiB a step")
        for name, values in rows.items():
            seconds, memory, sent = zip(*values)
            print(f"  {name:18s} {show(seconds)}  {statistics.median(memory):.0f}  {statistics.median(sent):.1f}", flush=True)


def turns(h):
    sides = {"nothing hides": ["schedule.alternate=never", "schedule.disable=hoist"], "weight gradients": ["schedule.alternate=never"], "as chosen": []}
    mesh = [f"parallel.mesh={{ {h.a.axis} = {h.a.hosts} }}", f"data.batch={h.a.batch}", f"data.global_batch={2 * h.a.batch}"]
    for rate in h.a.names:
        found, rows = [*mesh, *automatic(h.profile(rate))], {}
        for _ in range(h.a.pairs):
            for name, sets in sides.items():
                report = h.train(rate, [*found, *sets])
                middle = lambda key: statistics.median(r[key] for r in report["lines"])
                rows.setdefault(name, []).append((report["step"], middle(f"exposed_{h.a.axis}_s"), middle(f"{h.a.axis}_s"), middle("compute_s"), report["rss"] / (1 << 20)))
        print(f"{h.a.hosts} hosts, {rate}, {h.a.axis} = {h.a.hosts}, {' '.join(h.a.set)}: step s, exposed of the axis s, of it under way s, compute s, memory MiB; exposed and step over those of the first")
        for name, values in rows.items():
            step, exposed, under_way, compute, memory = zip(*values)
            plain = list(zip(*rows["nothing hides"]))
            print(f"  {name:18s} {show(step)}  {show(exposed)}  {show(under_way)}  {show(compute)}  {statistics.median(memory):.0f}  "
                  f"{show([a / b for a, b in zip(exposed, plain[1])], 2)}  {show([a / b for a, b in zip(step, plain[0])], 2)}  predicted {h.predicted([*found, *sides[name]]):.3f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("hidden", "peers", "pipe", "plans", "meshes", "passes", "modes", "turns"))
    parser.add_argument("names", nargs="+", metavar="RATE|PEER")
    parser.add_argument("--hosts", type=int, default=2)
    parser.add_argument("--ranks-per-host", type=int, default=1)
    parser.add_argument("--threads", type=int, default=os.environ.get("OMP_NUM_THREADS", "1").split(",")[0], help="of a rank")
    parser.add_argument("--cpu", type=int, help="percent of its core that a rank may use (two_hosts.sh --cpu)")
    parser.add_argument("--deck", default="inputs/bench_33m.toml")
    parser.add_argument("--batch", type=int, default=4, help="sequences a rank (data.batch)")
    parser.add_argument("--microbatch", type=int, default=1, help="sequences of a microbatch of the pipe")
    parser.add_argument("--axis", choices=("tensor", "context"), default="tensor")
    parser.add_argument("--set", action="append", default=[], metavar="K=V")
    parser.add_argument("--others", nargs="+", metavar="K=V", help="plans that the automatic one is held against")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--steps", type=int, default=6, help=f"of a run; the first {SKIP} do not count")
    parser.add_argument("--profile-seconds", type=int, default=25)
    arguments = parser.parse_args()
    with_peers = arguments.what == "peers" or (arguments.what == "pipe" and arguments.hosts == 2 and arguments.names[1:] != ["none"])
    if with_peers and arguments.ranks_per_host > 1:
        parser.error(f"--ranks-per-host {arguments.ranks_per_host}: PyTorch has one process a host; leave it out")
    os.environ["OMP_NUM_THREADS"] = str(arguments.threads)  # from there Weft and two_hosts.sh take it
    with tempfile.TemporaryDirectory() as scratch:
        {"hidden": hidden, "peers": peers, "pipe": pipe, "plans": plans, "meshes": meshes, "passes": passes, "modes": modes, "turns": turns}[arguments.what](Hosts(arguments, scratch))


if __name__ == "__main__":
    main()
