"""Checkpoints of N ranks in one mode, loaded on M ranks in another: the state has the saver's hash, and the losses go on."""
import itertools, math, random, time

from . import runs

MODES, SAVED, MORE = ("ddp", "zero1", "zero2", "fsdp", "hsdp", "pipe", "tensor", "context", "mesh"), 4, 5


def largest(ranks, sizes):
    return next(n for n in sizes if ranks % n == 0)


def mesh_of(ranks, mode):
    """The sizes of the axes that make a mode. hsdp is fsdp inside groups of neighbours, with copies of the groups; pipe, tensor and context
    are fsdp with as many stages or parts as the model has layers, heads and tokens for; mesh has two of each of context, tensor, pipe and
    replica, as far as there are ranks."""
    sizes = {"replica": 1, "data": 1, "pipe": 1, "context": 1, "tensor": 1}
    if mode == "hsdp":
        sizes["replica"] = 2 if ranks % 2 == 0 else ranks
    elif mode == "pipe":
        sizes["pipe"] = 4 if ranks == 4 else largest(ranks, (3, 2, 1))
    elif mode in ("tensor", "context"):
        sizes[mode] = largest(ranks, (4, 2, 1))
    elif mode == "mesh":
        left = ranks
        for axis in ("context", "tensor", "pipe", "replica"):
            sizes[axis] = largest(left, (2, 1))
            left //= sizes[axis]
    return sizes | {"data": ranks // math.prod(sizes.values())}


def sets(ranks, mode):
    return (f"parallel.mode={mode if mode in ('ddp', 'zero1', 'zero2') else 'fsdp'}", runs.mesh(mesh_of(ranks, mode).items()))


def key(ranks, mode):
    """What a run's bits depend on (runs.bits_of)."""
    sizes = mesh_of(ranks, mode)
    return runs.bits_of(sizes["replica"], sizes["data"], sizes["tensor"], sizes["context"])


class Reshard:
    def __init__(self, place, arguments):
        self.place, self.a, self.rng, self.problems = place, arguments, random.Random(arguments.seed), []
        # Curves of continuations, by the keys of the run that saved and of the run that goes on.
        self.curves = {}

    def failed(self, pair, kind, what):
        self.problems.append((pair, kind))
        print(f"{pair}: {kind}: {what}", flush=True)

    def go(self):
        layouts = list(itertools.product(self.a.ranks, MODES))
        pairs = list(itertools.product(layouts, layouts))
        if self.a.sample is not None:
            pairs = self.rng.sample(pairs, min(self.a.sample, len(pairs)))
        further = set(self.rng.sample(range(len(pairs)), min(self.a.losses, len(pairs))))
        savers, begin = {}, time.monotonic()
        for saver in sorted({a for a, _ in pairs}):
            savers[saver] = self.save(*saver)
        for number, (saver, loader) in enumerate(pairs):
            self.load(saver, savers[saver], loader, number in further)
            if number % 100 == 99:
                print(f"{number + 1} pairs after {time.monotonic() - begin:.0f} s", flush=True)
        of = {kind: sum(k == kind for _, k in self.problems) for kind in ("load", "off")}
        print(f"{len(pairs)} of {len(layouts) ** 2} pairs of ranks {self.a.ranks} x {', '.join(MODES)}: the loaded state has the saver's hash in "
              f"{len(pairs) - of['load']}; {len(further)} of them went on for {MORE} steps, off the curve {of['off']}", flush=True)
        return not self.problems

    def checkpoint(self, ranks, mode):
        return self.place.path(f"{mode}{ranks}/checkpoints/step-{SAVED:08}")

    def save(self, ranks, mode):
        self.place.trained(f"{mode}{ranks}", ranks, f"run.steps={SAVED}", *sets(ranks, mode))
        return runs.curve(self.place.path(f"{mode}{ranks}"))[SAVED][2]

    def continuation(self, saver, loader):
        """What the steps after the saved one must be: of a run without interruption where it would be of one key, else of other ranks and
        another mode that have the loader's key."""
        of, on = key(*saver), key(*loader)
        if (of, on) not in self.curves:
            name = f"reference{len(self.curves)}"
            tensor, context, replicas, data = on
            where = () if of == on else (f"checkpoint.resume={self.checkpoint(*saver)}",)
            self.place.trained(name, tensor * context * replicas * data, f"run.steps={SAVED + MORE}", "checkpoint.final=false", *where, "parallel.mode=ddp",
                               runs.mesh((("replica", replicas), ("data", data), ("context", context), ("tensor", tensor))))
            curve = runs.curve(self.place.path(name))
            self.curves[of, on] = [curve[SAVED + i] for i in range(1, MORE + 1)]
        return self.curves[of, on]

    def load(self, saver, state, loader, further):
        pair, name = f"{saver[1]} on {saver[0]} to {loader[1]} on {loader[0]}", "load"
        steps = SAVED + (MORE if further else 1)
        ended = self.place.train(name, loader[0], f"run.steps={steps}", "checkpoint.final=false",
                                 f"checkpoint.resume={self.checkpoint(*saver)}", *sets(*loader))
        at = runs.continued(ended)
        if ended.status != 0 or at != (SAVED, state):
            self.failed(pair, "load", f"status {ended.status}, loaded {at}, saved {state}: {ended.err[-500:]}")
        elif further:
            found = runs.curve(self.place.path(name))
            expected = self.continuation(saver, loader)
            if [found.get(SAVED + i) for i in range(1, MORE + 1)] != expected:
                self.failed(pair, "off", f"it went on with {found}, and should with {expected}")
