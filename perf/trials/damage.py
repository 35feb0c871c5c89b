"""Damaged, truncated and swapped files of a checkpoint: how each is found, and that a run goes on from the checkpoint before it."""
import collections, os, random, re, shutil

from . import runs

NEWEST, BEFORE, STEPS = "step-00000006", "step-00000004", 9

# Pairs: how a damage was found, and what `weft checkpoint verify` says then.
WAYS = [("checksum of a slab, tensor named", r"checksum mismatch in \w+ of unit \S+, elements"), ("checksum of the headers", r"checksum mismatch in HDF5's headers"),
        ("zeros between the datasets", r"between the datasets are not 0"), ("end of the file", r"ends at byte|is truncated"),
        ("size of the file", r"is too long"), ("checksum of the manifest", r"manifest\.json is damaged"),
        ("checksum of the descriptions", r"slices\.jsonl is damaged"), ("checksum of the index", r"index\.h5 is damaged"),
        ("no such file", r"is missing|cannot open|is not a checkpoint"), ("name of the directory", r"is the checkpoint of step \d+")]


class Damage:
    def __init__(self, place, arguments):
        self.place, self.a, self.rng = place, arguments, random.Random(arguments.seed)
        self.found, self.problems, self.resumes = collections.defaultdict(collections.Counter), [], collections.Counter()

    def problem(self, what):
        self.problems.append(what)
        print(what, flush=True)

    def go(self):
        saves = ("run.steps=6", "checkpoint.every=2", "checkpoint.keep=10")
        self.place.trained("whole", 2, f"run.steps={STEPS}")
        self.curve = runs.curve(self.place.path("whole"))
        self.place.trained("good", 2, *saves)
        self.place.trained("other", 2, *saves, "run.seed=8")
        self.good, self.other = (f"{self.place.path(n)}/checkpoints" for n in ("good", "other"))
        self.work = os.path.join(self.place.memory, "run")
        self.checkpoints = f"{self.work}/checkpoints"
        self.find_data()
        damages = [*self.flips(), *self.cuts()]
        resumed = set(self.rng.sample(range(len(damages)), min(self.a.resumes, len(damages))))
        self.reset()
        for number, (row, path, harm) in enumerate(damages):
            self.one(row, path, harm, number in resumed)
        for name, harm in self.swaps():
            self.swap(name, harm)
        self.links()
        self.report()
        return not self.problems

    def find_data(self):
        """Where the datasets of each shard lie, all fp32, by the offsets in slices.jsonl."""
        self.data = {shard["file"]: [(s[5], s[5] + 4 * s[4]) for s in shard["slices"]] for shard in runs.shards(f"{self.good}/{NEWEST}")}

    def size(self, file):
        return os.path.getsize(f"{self.good}/{NEWEST}/{file}")

    def is_data(self, file, byte):
        return any(b <= byte < e for b, e in self.data.get(file, ()))

    # The methods below damage files. They give rows of (row of the table, file, what to do to it).

    def flips(self):
        shards = sorted(self.data)
        def flip(row, file, byte):
            bit = self.rng.randrange(8)
            def harm(path):
                with open(path, "r+b") as f:
                    f.seek(byte)
                    old = f.read(1)[0]
                    f.seek(byte)
                    f.write(bytes([old ^ 1 << bit]))
            return row, file, harm
        n = self.a.flips
        for _ in range(n // 2):
            begin, end = self.rng.choice(self.data[file := self.rng.choice(shards)])
            yield flip("bit of a shard's data", file, self.rng.randrange(begin, end))
        for _ in range(n // 4):
            file = self.rng.choice(shards)
            while self.is_data(file, byte := self.rng.randrange(self.size(file))):
                pass
            yield flip("bit beside a shard's data", file, byte)
        for file, count in (("manifest.json", n // 16), ("slices.jsonl", n // 16), ("index.h5", n - n // 2 - n // 4 - 2 * (n // 16))):
            for _ in range(count):
                yield flip("bit of " + file, file, self.rng.randrange(self.size(file)))

    def cuts(self):
        files = [*sorted(self.data), "manifest.json", "slices.jsonl", "index.h5"]
        for _ in range(self.a.cuts):
            file = self.rng.choice(files)
            length = self.rng.choice((0, self.size(file) - 1, self.rng.randrange(self.size(file)), self.rng.randrange(self.size(file))))
            yield "truncated", file, lambda path, length=length: os.truncate(path, length)

    def swaps(self):
        """(name, what to do to the directory of checkpoints)."""
        new, old = f"{self.checkpoints}/{NEWEST}", f"{self.checkpoints}/{BEFORE}"
        def copy(source, target):
            return lambda: shutil.copy(source, target)
        def exchange():
            a, b = f"{new}/shard-00000.h5", f"{new}/shard-00001.h5"
            os.rename(a, f"{new}/x"), os.rename(b, a), os.rename(f"{new}/x", b)
        def instead():
            shutil.rmtree(new), shutil.copytree(old, new)
        for shard in sorted(self.data):
            yield f"{shard} of an earlier step", copy(f"{old}/{shard}", f"{new}/{shard}")
            yield f"{shard} of another run, same step", copy(f"{self.other}/{NEWEST}/{shard}", f"{new}/{shard}")
            yield f"{shard} missing", lambda shard=shard: os.remove(f"{new}/{shard}")
        yield "two shards exchanged", exchange
        for file in ("manifest.json", "slices.jsonl", "index.h5"):
            yield f"{file} of an earlier step", copy(f"{old}/{file}", f"{new}/{file}")
            yield f"{file} of another run, same step", copy(f"{self.other}/{NEWEST}/{file}", f"{new}/{file}")
            yield f"{file} missing", lambda file=file: os.remove(f"{new}/{file}")
        yield "an earlier checkpoint under this step's name", instead
        yield "a shard with a byte more", lambda: open(f"{new}/shard-00000.h5", "ab").write(b"\0")

    # The methods below find out what is noticed.

    def reset(self):
        shutil.rmtree(self.work, ignore_errors=True)
        shutil.copytree(self.good, self.checkpoints, symlinks=True)

    def way(self, ended):
        says = errors[0] if (errors := runs.errors(ended)) else ""
        return next((name for name, pattern in WAYS if re.search(pattern, says)), "another: " + says)

    def one(self, row, file, harm, resume):
        path = f"{self.checkpoints}/{NEWEST}/{file}"
        harm(path)
        ended = self.place.verify(f"{self.checkpoints}/{NEWEST}")
        if ended.status == 0:
            self.found[row]["NOT FOUND"] += 1
            self.problem(f"{row}: verify says that {file} is whole")
        elif ended.status != runs.BAD_CHECKPOINT or len(runs.errors(ended)) != 1:
            self.problem(f"{row}: {file}: verify ended with {ended.status} and {len(runs.errors(ended))} lines: {ended.err[-500:]}")
        else:
            self.found[row][self.way(ended)] += 1
            if row == "bit of a shard's data" and not self.way(ended).startswith("checksum of a slab"):
                self.problem(f"{row}: {ended.err.strip()}")
        if resume:
            # The loader uses manifest, descriptions and slabs. Headers and index are for others' tools.
            harmless = file == "index.h5" or row == "bit beside a shard's data"
            self.resume(f"{row}: {file}", NEWEST if harmless else BEFORE)
            self.reset()  # a run that went back has renamed the damaged checkpoint
        else:
            shutil.copy(f"{self.good}/{NEWEST}/{file}", path)

    def swap(self, name, harm):
        self.reset()
        harm()
        ended = self.place.verify(f"{self.checkpoints}/{NEWEST}")
        self.found["swap: " + name][self.way(ended) if ended.status else "NOT FOUND"] += 1
        if ended.status != runs.BAD_CHECKPOINT:
            self.problem(f"{name}: verify ended with {ended.status}")
        self.resume(name, NEWEST if "index" in name else BEFORE)

    def links(self):
        """Flips bits of what `latest` points to, which must not matter: it is for people, and a resume does not use it."""
        self.reset()
        link, target = f"{self.checkpoints}/latest", NEWEST.encode()
        for bit in self.rng.sample(range(8 * len(target)), min(8 * len(target), self.a.flips // 30)):
            harmed = bytearray(target)
            harmed[bit // 8] ^= 1 << bit % 8
            if not harmed[bit // 8]:
                continue
            os.remove(link)
            os.symlink(bytes(harmed), link)
            ended = self.place.verify(link)
            other = os.path.exists(link)
            self.found["bit of latest's target"]["it names another whole checkpoint" if other else self.way(ended)] += 1
            if (ended.status == 0) != other:
                self.problem(f"latest -> {bytes(harmed)}: verify ended with {ended.status}: {ended.err}")
        self.resume("bit of latest's target", NEWEST)

    def resume(self, what, expected):
        """Resumes with "auto", and then from the damaged checkpoint by its name."""
        step = runs.step_of(expected)
        named = self.place.train("named", 1, f"checkpoint.resume={self.checkpoints}/{NEWEST}", f"run.steps={step + 1}", "checkpoint.final=false")
        refused = named.status == runs.BAD_CHECKPOINT and len(runs.errors(named)) == 1
        if refused != (expected != NEWEST):
            self.problem(f"{what}: named in checkpoint.resume: status {named.status}: {named.err[-500:]}")
        for file in ("metrics.jsonl", "hashes.jsonl"):
            if os.path.exists(f"{self.work}/{file}"):
                os.remove(f"{self.work}/{file}")
        ended = self.place.call(runs.train(self.work, self.rng.choice((1, 2)), f"run.steps={step + 1}", "checkpoint.final=false"))
        at, said = runs.continued(ended), re.search(r"passed over|going back to", ended.err) is not None
        good = ended.status == 0 and at == (step, self.curve[step][2]) and runs.curve(self.work).get(step + 1) == self.curve[step + 1]
        if not good or said != (expected != NEWEST):
            self.problem(f"{what}: resume = auto: status {ended.status}, from {at}, expected {expected}: {ended.err[-800:]}")
        else:
            self.resumes[expected == NEWEST] += 1

    def report(self):
        rows = {row: ways for row, ways in self.found.items() if not row.startswith("swap")}
        for row, ways in rows.items():
            total = sum(ways.values())
            print(f"{row:26s} {total:5d}: " + ", ".join(f"{n} {way} ({100 * n / total:.1f} %)" for way, n in ways.most_common()))
        for row, ways in self.found.items():
            if row.startswith("swap"):
                print(f"{row}: {', '.join(ways)}")
        total = sum(sum(w.values()) for w in rows.values())
        missed = sum(w["NOT FOUND"] for w in self.found.values())
        print(f"{total} bits and truncations, {len(self.found) - len(rows)} swaps, {missed} of all not found; {self.resumes[False]} runs went back to the "
              f"checkpoint before, {self.resumes[True]} went on from the one with damage that no load reads; not found or not survived: {len(self.problems)}",
              flush=True)
