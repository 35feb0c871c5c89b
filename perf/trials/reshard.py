"""Checkpoints of N ranks in one mode, loaded on M ranks in another: the state has the saver's hash, and the losses go on."""
import itertools, random, time

from . import runs

MODES, SAVED, MORE = ("ddp", "zero1", "zero2", "fsdp", "hsdp", "pipe"), 4, 5


def sets(ranks, mode):
    """The settings that make a mode. hsdp is fsdp inside groups of neighbours, with copies of the groups; pipe is fsdp with two stages, or
    as many as there are ranks up to four."""
    if mode == "pipe":
        pipe = next(n for n in (4, 3, 2, 1) if ranks % n == 0 and (n < 4 or ranks == 4))
        return ("parallel.mode=fsdp", f"parallel.mesh={{ pipe = {pipe} }}")
    if mode != "hsdp":
        return (f"parallel.mode={mode}",)
    replicas = replicas_of(ranks, mode)
    return ("parallel.mode=fsdp", f"parallel.mesh={{ replica = {replicas}, data = {ranks // replicas} }}")


def replicas_of(ranks, mode):
    """The number of replicas. Another number is another order of the gradients' sum, so that later steps have other bits."""
    return 1 if mode != "hsdp" else 2 if ranks % 2 == 0 else ranks


class Reshard:
    def __init__(self, place, arguments):
        self.place, self.a, self.rng, self.problems = place, arguments, random.Random(arguments.seed), []
        # Curves of continuations, by (the checkpoint's curve, shards and replicas that go on).
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

    def key(self, ranks, mode):
        """A key of a run; runs with equal keys have equal bits."""
        r = replicas_of(ranks, mode)
        return (r, ranks // r) if r > 1 else (1, 1)

    def save(self, ranks, mode):
        self.place.trained(f"{mode}{ranks}", ranks, f"run.steps={SAVED}", *sets(ranks, mode))
        return runs.curve(self.place.path(f"{mode}{ranks}"))[SAVED][2]

    def continuation(self, saver, loader):
        """What the steps after the saved one must be: of a run without interruption where it would be of one key, else of other ranks and
        another mode that have the loader's key."""
        of, on = self.key(*saver), self.key(*loader)
        if (of, on) not in self.curves:
            name = f"reference{len(self.curves)}"
            ranks = on[0] * on[1]
            where = () if of == on else (f"checkpoint.resume={self.checkpoint(*saver)}",)
            mesh = () if ranks == 1 else ("parallel.mode=ddp", f"parallel.mesh={{ replica = {on[0]}, data = {on[1]} }}")
            self.place.trained(name, ranks, f"run.steps={SAVED + MORE}", "checkpoint.final=false", *where, *mesh)
            curve = runs.curve(self.place.path(name))
            self.curves[of, on] = [curve[SAVED + i] for i in range(1, MORE + 1)]
        return self.curves[of, on]

    def load(self, saver, state, loader, further):
        pair, name = f"{saver[1]} on {saver[0]} to {loader[1]} on {loader[0]}", "load"
        steps = SAVED + MORE if further else SAVED
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
