#!/usr/bin/env python3
"""Every mesh of 1 to 8 ranks: what must have equal bits has them, and the rest is near one rank. The real program on perf/trials/tiny.toml.

  perf/meshes.py [--ranks 1 2 3 4 5 6 7 8] [--steps 10] [--sample N]      N meshes of each number of ranks; all without it

Each mesh is trained with a mode, a schedule of the pipe, an order of axes and a recomputation drawn at random (--seed), with the same weights
and tokens as one rank. Losses, gradient norms and state hashes must be equal, bit by bit, in all runs of one size of the tensor and the context
axis (and of one pair of replica and data where there are replicas, which change the order of the gradients' sum). The first run of each such group must be
near one rank: losses within 1e-5 of them, the first gradient norm too. Prints a line for each run that is not as it must be, then a table; the
exit status is 1 if there was one. WEFT: the program (default: build/cpu/weft), MPIRUN: its launcher.
"""
import argparse, collections, itertools, math, random, sys

from distances import largest, relative
from trials import runs

AXES = ("replica", "data", "pipe", "context", "tensor")
# Heads for a tensor axis of 2, 3, 4, 6 or 8, layers for eight stages, tokens for contexts of 2, 3, 4, 6 and 8. One head of keys and values is on every rank of the axis.
MODEL = ("model.layers=6", "data.seq=48", "model.heads=24", "model.dim=96", "model.ffn=96", "optimizer.lr=1e-3")
KV_HEADS = (24, 1)
BOUND = 1e-5

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--ranks", type=int, nargs="+", default=list(range(1, 9)))
parser.add_argument("--steps", type=int, default=10)
parser.add_argument("--sample", type=int)
parser.add_argument("--seed", type=int, default=1)
a = parser.parse_args()
rng = random.Random(a.seed)


def meshes_of(ranks):
    """All sizes of the axes whose product is the number of ranks, in the order of AXES."""
    sizes = [n for n in range(1, ranks + 1) if ranks % n == 0]
    return [s for s in itertools.product(sizes, repeat=len(AXES)) if math.prod(s) == ranks]


def batch_of(ranks):
    """Sequences a step that all meshes of these ranks divide."""
    return 24 if ranks not in (5, 7) else 4 * ranks


def sets_of(sizes, batch):
    """A deck of the mesh; what changes no bit is drawn at random."""
    axes = list(zip(AXES, sizes))
    pipe, microbatches = sizes[2], batch // (sizes[0] * sizes[1])
    chunks = rng.choice([n for n in (1, 2) if n * pipe <= 8 and microbatches % pipe == 0] or [1]) if pipe > 1 else 1
    schedule = rng.choice(("interleaved", "zbv")) if chunks > 1 else rng.choice(("gpipe", "1f1b", "zb_h1"))
    rng.shuffle(axes)
    return (runs.mesh(axes), f"pipeline.schedule={schedule}",
            f"pipeline.chunks={chunks}", f"parallel.mode={rng.choice(('ddp', 'zero1', 'zero2', 'fsdp'))}",
            f"schedule.recompute={rng.choice(('none', 'full'))}")


def curve(place, ranks, sets):
    """Step by step, loss, norm and state hash; else the line that refused the deck."""
    always = (f"run.steps={a.steps}", "checkpoint.resume=never", "checkpoint.final=false", "log.progress=false")
    ended = place.call(runs.train(place.path("run"), ranks, *always, *sets), seconds=900)
    if ended.status == runs.BAD_INPUT and len(runs.errors(ended)) == 1:
        return runs.errors(ended)[0]
    if ended.status != 0:
        raise SystemExit(f"meshes.py: {sets} ended with {ended.status}:\n{ended.err[-2000:]}")
    found = list(runs.curve(place.path("run")).values())
    if len(found) != a.steps:
        raise SystemExit(f"meshes.py: {sets} wrote {len(found)} of {a.steps} steps")
    return found


def distance(found, alone):
    """The largest relative difference of a loss, and that of the first gradient norm."""
    return largest([relative(f[0], e[0]) for f, e in zip(found, alone)]), relative(found[0][1], alone[0][1])


wrong, seen, refused, runs_made = 0, collections.defaultdict(collections.Counter), collections.Counter(), 0
farthest = collections.defaultdict(float)
with runs.Place() as place:
    for kv_heads in KV_HEADS:
        first = {}  # the curve of each group of runs with equal bits
        for ranks in a.ranks:
            batch = batch_of(ranks)
            model = (*MODEL, f"model.kv_heads={kv_heads}", f"data.global_batch={batch}")
            alone = first.setdefault((batch, *runs.bits_of(1, 1, 1, 1)), curve(place, 1, model))
            meshes = meshes_of(ranks)
            for sizes in rng.sample(meshes, min(a.sample or len(meshes), len(meshes))):
                replica, data, _, context, tensor = sizes
                sets = sets_of(sizes, batch)
                found = curve(place, ranks, (*model, *sets))
                runs_made += 1
                if isinstance(found, str):
                    refused[found] += 1
                    if 24 % tensor == 0 and 24 % (context * tensor) == 0:
                        wrong += 1
                        print(f"{sets}: refused: {found}", flush=True)
                    continue
                group = (batch, *runs.bits_of(replica, data, tensor, context))
                if found != first.setdefault(group, found):
                    wrong += 1
                    print(f"{sets}, {kv_heads} heads of keys: other bits than its group {group}", flush=True)
                losses, norm = distance(found, alone)
                kind = "context" if context > 1 else "tensor" if tensor > 1 else "replica" if replica > 1 else "data and pipe"
                farthest[kind] = largest([farthest[kind], losses, norm])
                if not largest([losses, norm]) <= BOUND:
                    wrong += 1
                    print(f"{sets}, {kv_heads} heads of keys: losses {losses:.1e}, the first norm {norm:.1e} from one rank", flush=True)
                seen[ranks][kind] += 1
print(f"\n{runs_made} runs of {a.steps} steps, {sum(refused.values())} refused, {wrong} not as they must be")
kinds = ("data and pipe", "replica", "tensor", "context")
print("| ranks | " + " | ".join(kinds) + " |\n|---|" + "---|" * len(kinds))
for ranks, counts in seen.items():
    print(f"| {ranks} | " + " | ".join(str(counts[kind]) for kind in kinds) + " |")
print("| farthest from one rank | " + " | ".join(f"{farthest[kind]:.1e}" for kind in kinds) + " |")
for line, count in refused.items():
    print(f"refused {count} times: {line}")
sys.exit(1 if wrong else 0)
