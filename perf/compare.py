#!/usr/bin/env python3
"""Weft and PyTorch on one machine, in turn: tokens/s, by shape (their memory: perf/memory.py).

  perf/compare.sh [PEER...] [--shape 33m|long|wide] [--dtype bf16|fp32] [--wire fp32|bf16] [--pairs 5] [--steps 10] [--ranks 2]
                  [--threads 1] [--set K=V]...

PEER: ddpc, fsdp2c, simplefsdp (all three without a name); single, with --ranks 1; pipe, pipec: both sides then are pipes over all ranks, whose
microbatches have one sequence; tensor, tensorc: both sides then are tensor parallel over all ranks, with the sequences of all ranks in one
microbatch. A side's step is (wall clock of a run of 3 N steps - wall clock of one of N) / 2 N: start, compilation and whatever a program says
of itself are left out. Beside it stands the median step that it reports, and the seconds from the start to the end of the first step. Too few
steps, and what starts differ by shows in the first. --wire: gradients between ranks. --set changes Weft's deck (inputs/bench_33m.toml) where
that is no matter of shape.
WEFT: the program (default: build/cpu/weft). Other work on the machine spoils the result: ratios are taken within a pair.
"""
import argparse, json, os, statistics, subprocess, sys, tempfile, time

from hosts import ROOT, WEFT, peers_python

PEERS = ("ddpc", "fsdp2c", "simplefsdp", "single", "pipe", "pipec", "tensor", "tensorc")
# The first is the deck's, the others have as many tokens a rank: long sequences, a wide vocabulary.
SHAPES = {
    "33m": dict(dim=512, layers=8, heads=8, kv_heads=4, ffn=1536, vocab=8192, seq=512, batch=4),
    "long": dict(dim=512, layers=8, heads=8, kv_heads=4, ffn=1536, vocab=8192, seq=2048, batch=1),
    "wide": dict(dim=512, layers=4, heads=8, kv_heads=4, ffn=1536, vocab=65536, seq=512, batch=2),
}


def show(values, digits):
    return f"{statistics.median(values):8.{digits}f} ({min(values):.{digits}f} .. {max(values):.{digits}f})"


def timed(command, tries=1):
    """Seconds and output of a command. One that fails runs again, if it has more tries."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(a.threads), "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    for attempt in range(1, tries + 1):
        begin = time.monotonic()
        done = subprocess.run(command, cwd=ROOT, env=environment, text=True, capture_output=True, stdin=subprocess.DEVNULL)
        seconds = time.monotonic() - begin
        if done.returncode == 0:
            return seconds, done.stdout
        if attempt < tries:
            print(f"compare.py: {' '.join(command)} ended with {done.returncode}; it runs again", file=sys.stderr, flush=True)
    sys.exit(f"compare.py: {' '.join(command)} ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def run_weft(steps, peer):
    with tempfile.TemporaryDirectory() as folder:
        s = SHAPES[a.shape]
        sets = [f"model.{k}={s[k]}" for k in ("dim", "layers", "heads", "kv_heads", "ffn", "vocab")]
        sets += [f"data.seq={s['seq']}", f"data.batch={s['batch']}", f"data.global_batch={s['batch'] * a.ranks}", f"run.steps={steps}",
                 f"run.dir={folder}/run", f"precision.params={a.dtype.replace('fp32', 'f32')}",
                 f"precision.grad_wire={a.wire.replace('fp32', 'f32')}", "log.progress=false"]
        if peer.startswith("pipe"):
            sets += [f"parallel.mesh={{ pipe = {a.ranks} }}", "data.batch=1"]
        if peer.startswith("tensor"):
            sets += [f"parallel.mesh={{ tensor = {a.ranks} }}", f"data.batch={s['batch'] * a.ranks}"]
        sets += a.set
        command = ["mpirun", "-n", str(a.ranks), "--map-by", f"slot:PE={a.threads}", WEFT, "train", "inputs/bench_33m.toml"]
        seconds, _ = timed(command + [x for k in sets for x in ("--set", k)])
        with open(f"{folder}/run/metrics.jsonl") as file:
            lines = [r for r in map(json.loads, file) if r["kind"] == "train"]
    return seconds, statistics.median(r["step_s"] for r in lines[1:])


def run_peer(mode, steps):
    shape = [x for k, v in SHAPES[a.shape].items() for x in ("--" + k, str(v))]
    command = [python, "-m", "torch.distributed.run", "--nproc-per-node", str(a.ranks)] if mode != "single" else [python]
    command += ["perf/peers/torch_llama.py", "--mode", mode, "--dtype", a.dtype, "--reduce", a.wire, "--threads", str(a.threads),
                "--steps", str(steps), "--skip", "2", "--microbatches", str(SHAPES[a.shape]["batch"] * a.ranks), *shape]
    seconds, out = timed(command, tries=3)  # PyTorch's compiled FSDP2 aborts now and then at its start
    return seconds, a.tokens / json.loads(out.strip().splitlines()[-1])["tok_s"]


def side(run):
    """Measures one side: tokens/s by wall clock and by its own report, and seconds to the end of the first step."""
    run(3)  # what the other side leaves behind (its memory, its pages) is the first start's to clear away
    short, _ = run(a.steps)
    long, step = run(3 * a.steps)
    wall = (long - short) / (2 * a.steps)
    return a.tokens / wall, a.tokens / step, short - (a.steps - 1) * wall


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("peers", nargs="*", metavar="PEER", help=", ".join(PEERS))
parser.add_argument("--shape", choices=SHAPES, default="33m")
parser.add_argument("--dtype", choices=("bf16", "fp32"), default="bf16")
parser.add_argument("--wire", choices=("fp32", "bf16"), default="fp32")
parser.add_argument("--pairs", type=int, default=5)
parser.add_argument("--steps", type=int, default=10)
parser.add_argument("--ranks", type=int, default=2)
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--set", action="append", default=[], metavar="K=V")
a = parser.parse_args()
peers = a.peers or list(PEERS[:3])
if unknown := set(peers) - set(PEERS):
    parser.error(f"no peer {', '.join(sorted(unknown))}")
if "single" in peers and a.ranks != 1:
    parser.error(f"single is one process; compare it by itself, with --ranks 1 (not {a.ranks})")
if a.ranks < 2 and set(peers) != {"single"}:
    parser.error(f"--ranks {a.ranks}: 2 or more, for all peers but single")
if a.wire == "bf16" and a.dtype == "fp32":
    parser.error("--wire bf16: needs --dtype bf16 (gradients of fp32 products are fp32)")
if a.steps < 3:
    parser.error("--steps: the peers' first two do not count; 3 or more")
a.tokens = SHAPES[a.shape]["seq"] * SHAPES[a.shape]["batch"] * a.ranks
python = peers_python()
for peer in peers:  # the first run compiles into a cache that the others find
    run_peer(peer, 3)
rows = {}
for _ in range(a.pairs):
    for peer in peers:
        pair = side(lambda steps: run_weft(steps, peer)), side(lambda steps: run_peer(peer, steps))
        rows.setdefault(peer, []).append(pair)
        print(f"weft / {peer}: {pair[0][0] / pair[1][0]:.2f} [{pair[0][1] / pair[1][1]:.2f}]", file=sys.stderr, flush=True)
print(f"{a.shape}, {a.dtype}, gradients on the wire {a.wire}, {a.ranks} ranks of {a.threads}: tokens/s by wall clock [as reported], first step")
for peer, pairs in rows.items():
    for name, index in (("weft", 0), (peer, 1)):
        wall, own, first = zip(*(p[index] for p in pairs))
        print(f"  {name:11s} {show(wall, 0)}  [{statistics.median(own):.0f}]  {show(first, 1)} s")
    print(f"  weft / {peer:11s} {show([w[0] / p[0] for w, p in pairs], 2)}  [{show([w[1] / p[1] for w, p in pairs], 2)}]", flush=True)
