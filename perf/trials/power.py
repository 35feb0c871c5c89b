"""Power cuts by replay: runs that save are traced, and what a disk may hold at a cut is built and loaded."""
import collections, functools, hashlib, json, os, random, re, shlex, shutil, subprocess

from . import disk, runs

STEPS = 12
EXTREMES = ("all", "nothing", "entries", "entries, zeros", "contents")
MORE = 4  # how many random states are made at a point beside an fsync or a rename


def can_trace():
    return shutil.which("strace") and subprocess.run(["strace", "-qq", "-o", os.devnull, "true"], capture_output=True).returncode == 0


def traced(place):
    """The lines of strace, [(process, call)], in the order in which the calls ended. Three runs into one directory: saves and removals;
    a second save of the newest step, which replaces its checkpoint; what a killed run left, and saves after it."""
    run = place.path("disk/runs/a")
    os.mkdir(place.path("disk"))
    checkpoints, common = f"{run}/checkpoints", ("checkpoint.every=2", "checkpoint.keep=2")
    commands = [runs.train(run, 2, "run.steps=8", *common),
                runs.train(run, 2, "run.steps=8", f"checkpoint.resume={checkpoints}/step-00000006", *common),
                ["mkdir", f"{checkpoints}/step-00000010.tmp"], ["ln", "-s", "step-00000010", f"{checkpoints}/latest.tmp"],
                ["dd", "if=/dev/zero", "bs=1000", "count=1", f"of={checkpoints}/step-00000010.tmp/shard-00000.h5"],
                runs.train(run, 2, f"run.steps={STEPS}", *common)]
    script = " && ".join(shlex.join(c) for c in commands)
    trace = place.path("trace")
    ended = place.call(["strace", "--seccomp-bpf", "-f", "-qq", "-y", "-xx", "-s", "4000000", "-e", f"trace={disk.CALLS}", "-e",
                        "signal=none", "-o", trace, "sh", "-c", script], 300)
    if ended.status != 0:
        raise SystemExit(f"checkpoints.py power: the traced runs ended with {ended.status}:\n{ended.err[-2000:]}")
    calls, begun = [], {}
    with open(trace, encoding="ascii") as file:
        for line in file:
            process, call = line.rstrip("\n").split(None, 1)
            if call.endswith("<unfinished ...>"):
                begun[process] = call.removesuffix("<unfinished ...>").rstrip()
            elif found := re.match(r"<\.\.\. \w+ resumed>", call):
                calls.append((process, begun.pop(process) + call[found.end():]))
            else:
                calls.append((process, call))
    return calls


class Replay:
    """The calls once more, and what is known of checkpoints after each."""

    def __init__(self, place, calls, ignore):
        self.place, self.calls, self.ignore = place, calls, ignore

    def points(self):
        """(index, what, disk, serial of the newest checkpoint whose name was fsynced) after each call that changes something."""
        self.disk, self.manifests, committed, index = disk.Disk(self.place.path("disk"), self.ignore), {}, 0, 0
        for process, line in self.calls:
            what = self.disk.call(process, line, runs.ROOT)
            if what in ("rename", "fsync"):
                visible = self.visible()
                self.manifests.update(visible)
                if visible and what == "fsync" and self.of_checkpoints(line):
                    committed = max(committed, *visible.values())
            if what:
                yield index, what, committed
                index += 1

    def of_checkpoints(self, line):
        return disk.unhex(re.search(r"<([^>]*)>", line)[1]).endswith(b"/checkpoints")

    def visible(self):
        """{text of the manifest: serial} of all that have a checkpoint's name."""
        directory = self.disk.find([b"runs", b"a", b"checkpoints"])
        texts = [bytes(node.whole[b"manifest.json"].whole) for name, node in (directory.whole if directory else {}).items()
                 if re.fullmatch(rb"step-\d+", name)]
        return {text: json.loads(text)["serial"] for text in texts}

    def state(self, index, variant):
        rng, kind = random.Random(f"{index} {variant}"), EXTREMES[variant] if variant < len(EXTREMES) else None
        strict = rng.random() < 0.5
        if kind is None:
            return self.disk.state(lambda n: disk.any_entries(n, rng, strict), lambda n: disk.any_content(n, rng))
        entries = (lambda n: n.whole) if kind in ("all", "entries", "entries, zeros") else lambda n: n.durable
        content = {"all": lambda n: bytes(n.whole), "contents": lambda n: bytes(n.whole), "entries, zeros": lambda n: bytes(len(n.whole))}
        return self.disk.state(entries, content.get(kind, lambda n: n.durable))


@functools.lru_cache(maxsize=256)  # most of a state has not changed
def fingerprint(content):
    return hashlib.blake2b(content, digest_size=16).digest()


def digest(state):
    """A hash of the directory of checkpoints. Other bytes of the log and the metrics make no other state."""
    h = hashlib.blake2b(digest_size=16)
    for path, content in sorted(state.items()):
        if b"/checkpoints" in path or content is None:
            h.update(repr((path, fingerprint(content) if isinstance(content, bytes) else content)).encode())
    return h.digest()


def choose(replay, states, rng):
    """({index: variants}, the calls, how many of these cases are distinct states): of all states that a few draws at each call give, more
    of them beside fsyncs and renames, as many as asked for. One state with another checkpoint saved before it is another case."""
    points = [what for _, what, _ in replay.points()]
    found, variants, more = {}, [0] * len(points), True
    while more and len({key for key, _ in found}) < states:
        before = len(found)
        for index, _, committed in replay.points():
            near = {"fsync", "rename"} & set(points[index:index + 2])
            first = variants[index] or (0 if near else len(EXTREMES))
            variants[index] = first + (len(EXTREMES) if first == 0 else MORE if near else 1)
            for variant in range(first, variants[index]):
                found.setdefault((digest(replay.state(index, variant)), committed), (index, variant))
        more = len(found) > before
    chosen = collections.defaultdict(list)
    taken = rng.sample(sorted(found.items()), min(states, len(found)))
    for _, (index, variant) in taken:
        chosen[index].append(variant)
    return chosen, points, len({key for (key, _), _ in taken})


def put(state, root):
    shutil.rmtree(root, ignore_errors=True)
    os.mkdir(root)
    for path, content in state.items():  # a directory comes before what is in it
        at = os.path.join(os.fsencode(root), path)
        if content is None:
            os.mkdir(at)
        elif isinstance(content, str):
            os.symlink(content, at)
        else:
            with open(at, "wb") as file:
                file.write(content)


class Power:
    def __init__(self, place, arguments):
        self.place, self.a, self.rng = place, arguments, random.Random(arguments.seed)
        self.counts, self.problems = collections.Counter(), []

    def problem(self, at, kind, what):
        self.counts[kind] += 1
        self.problems.append(what)
        print(f"cut after call {at[0]} ({at[1]}), variant {at[2]}: {kind}: {what}", flush=True)

    def go(self):
        self.place.trained("whole", 2, f"run.steps={STEPS + 1}")
        self.curve = runs.curve(self.place.path("whole"))
        replay = Replay(self.place, traced(self.place), self.a.ignore_syncs)
        chosen, points, distinct = choose(replay, self.a.states, self.rng)
        if not points or not replay.manifests:
            print(f"of the traced runs {len(points)} calls that change the disk and {len(replay.manifests)} checkpoints were seen: "
                  "nothing can be tried", flush=True)
            return False
        states = sum(map(len, chosen.values()))
        resumes = set(self.rng.sample(range(states), min(self.a.resumes, states)))
        number = 0
        for index, what, committed in replay.points():
            for variant in chosen.get(index, ()):
                self.check(replay, (index, what, variant), committed, number in resumes)
                number += 1
        kinds = ", ".join(f"{n} {what}" for what, n in collections.Counter(points).most_common())
        print(f"{states} cuts, {distinct} distinct states, of {len(points)} calls that change the disk ({kinds}):")
        print(f"  {self.counts['whole']} with a whole checkpoint, not older than the last whose directory was fsynced; "
              f"{self.counts['none yet']} before the first was; {self.counts['resumed']} of them resumed on the curve")
        print(f"  lost {self.counts['lost']}, visible and not whole {self.counts['visible']}, resumes off the curve {self.counts['off']}", flush=True)
        return not self.problems

    def check(self, replay, at, committed, resume):
        root = os.path.join(self.place.memory, "state")
        put(replay.state(at[0], at[2]), root)
        run = f"{root}/runs/a"
        checkpoints = f"{run}/checkpoints"
        listed = runs.Listed(self.place, checkpoints)
        if listed.damaged:
            self.problem(at, "visible", f"{listed.damaged} is there and damaged")
        for name in listed.whole:
            if (ended := self.place.verify(f"{checkpoints}/{name}")).status != 0:
                self.problem(at, "visible", f"{name} is listed as whole: {ended.err.strip()}")
        newest = None
        if listed.whole:
            with open(f"{checkpoints}/{listed.whole[0]}/manifest.json", "rb") as file:
                newest = replay.manifests.get(file.read())
            if newest is None:
                self.problem(at, "visible", f"{listed.whole[0]} is none of the checkpoints that were saved")
        if (newest or 0) < committed:
            self.problem(at, "lost", f"the newest checkpoint is number {newest or 0}; number {committed} was saved")
        else:
            self.counts["whole" if newest else "none yet"] += 1
        if resume:
            self.resume(at, run, runs.step_of(listed.whole[0]) if newest else 0)

    def resume(self, at, run, step):
        # A cut may leave a lock without its owner's name. The next run would then wait two minutes for a sign
        # of life, which is of no interest here.
        lock = os.path.join(run, "lock")
        if os.path.exists(lock):
            os.remove(lock)
        ended = self.place.call(runs.train(run, 1, f"run.steps={max(step + 1, 2)}", "checkpoint.final=false"))
        found = runs.continued(ended)
        last = runs.curve(run).get(step + 1)
        if ended.status != 0 or (found or (0, None))[0] != step or (found and found[1] != self.curve[step][2]) or last != self.curve[step + 1]:
            self.problem(at, "off", f"from step {step}: status {ended.status}, went on from {found}, then {last}: {ended.err[-300:]}")
        else:
            self.counts["resumed"] += 1
