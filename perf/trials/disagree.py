"""Ranks that were given different things: each is refused with its name, or proven harmless."""
import collections, os, re, shutil, subprocess, tomllib

from . import runs

STEPS = 4

# These are settings of both ranks. They are chosen so that as many keys as possible have an effect.
SETS = ("model.vocab=260", "model.rope_scaling.factor=8", "data.synthetic=false", "data.valid_every=2", "data.global_batch=4",
        f"run.steps={STEPS}", "run.collective_timeout=8s", "optimizer.decay=wsd", "optimizer.decay_steps=2", "optimizer.min_lr=1e-4",
        "optimizer.warmup=1", "checkpoint.every=2", "log.every=2")

# These are rank 1's values for keys where the next number, the other word or twice the value would not do.
# Both ranks have the settings behind them.
OTHERS = {
    "run.name": ("other",), "run.dir": ("{dir}/other",), "run.walltime": ("1h",), "run.memory_limit": ("4GiB",), "run.collective_timeout": ("9s",), "run.storage_timeout": ("9s",),
    "model.dim": (64,), "model.heads": (8,), "model.kv_heads": (4,), "model.init": ("{dir}/init",), "model.rope_theta": (10000.0,),
    "model.rope_scaling.low_freq_factor": (2.0,), "model.rope_scaling.original_max_position": (16,),
    "data.train": ("{dir}/other.bin",), "data.valid": ("{dir}/other.bin",), "data.synthetic": ("true",), "data.seq": (8,), "data.batch": (2,),
    "data.global_batch": (8,), "optimizer.beta1": (0.8,), "optimizer.beta2": (0.9,), "optimizer.decay": ("linear", "optimizer.decay_steps=0"),
    "parallel.mode": ("ddp",), "parallel.mesh": ("{{ replica = 2, data = 1 }}",),
    "pipeline.chunks": (2, "pipeline.schedule=interleaved"), "pipeline.layers": ("[1, 1]",), "precision.head_rows": (8,),
    "precision.norms": ("bf16", "precision.params=bf16"),
    "precision.grad_wire": ("bf16", "precision.params=bf16"),
    "precision.float8": ("[\"layers.0-1\"]", "precision.params=bf16"), "precision.float8_gradients": ("e5m2", "precision.params=bf16", "precision.float8=[\"layers.0-1\"]"),
    "precision.float8_scales": ("tensorwise", "precision.params=bf16", "precision.float8=[\"layers.0-1\"]"),
    "schedule.disable": ("[\"fuse\"]",), "schedule.recompute": ("full",), "schedule.regather": ("never",), "schedule.alternate": ("always",),
    "schedule.recompute_ops": ("[\"swiglu\"]", "schedule.recompute=selective"), "schedule.bucketing": ("greedy",), "schedule.profile": ("h100",),
    "schedule.buckets": ("[\"embed\", \"layers.0\", \"layers.1\", \"head\"]", "schedule.bucketing=manual"),
    "schedule.prefetch": (2,), "schedule.reduce_delay": (2,), "schedule.prefetch_bytes": ("1KiB",), "schedule.memory_limit": ("2GiB",),
    "checkpoint.alignment": ("8MiB",), "checkpoint.resume": ("never",), "checkpoint.keep_every": (2,), "log.peak_tflops": (1.0,),
    "debug.hash_every": (2,),
}

# These are values that only a rank's own host sees: other names for the same files.
COPIES = {"data.train": "{dir}/copies/train.bin", "data.valid": "{dir}/copies/valid.bin", "model.init": "{dir}/copies/init"}

# What may have to come of a row.
REFUSED, HARMLESS, EITHER = "refused", "harmless", "either"

Said = collections.namedtuple("Said", "verdict text good")


def keys_of_schema(text):
    """{name: type, as the schema says it}."""
    keys, table = {}, ""
    for line in text.splitlines():
        if found := re.match(r"\[([\w.]+)\]", line):
            table = found[1]
        elif found := re.match(r"  (\w+)\s+(.*); (?:default|required)", line):
            keys[f"{table}.{found[1]}"] = found[2]
    return keys


class Disagree:
    def __init__(self, place, arguments):
        self.place, self.a, self.problems, self.number = place, arguments, [], 0
        self.dir = place.dir

    def go(self):
        self.prepare()
        rows = [*self.keys(), *self.copies(), *self.files(), *self.others()]
        wanted = [row for row in rows if not self.a.only or any(word in row[0] for word in self.a.only)]
        counts = collections.Counter()
        for name, word, first, second, must in wanted:
            said = self.compare(name, word, first, second, must)
            counts[said.verdict] += 1
            if not said.good:
                self.problems.append(name)
            print(f"{'  ' if said.good else '! '}{name:45s} {said.verdict}{': ' if said.text else ''}{said.text}", flush=True)
        print(f"{len(wanted)} things that two ranks disagree about: " + ", ".join(f"{n} {what}" for what, n in counts.most_common())
              + f"; not as they should be: {len(self.problems)}", flush=True)
        return not self.problems and len(wanted) > 0

    # The methods below make what the ranks are given.

    def prepare(self):
        for name in ("alike", "copies", "relative", "train", "valid"):
            os.mkdir(f"{self.dir}/{name}")
        runs.write_tokens(self.place, f"{self.dir}/copies", 1)
        self.data = {"data.train": f"{self.dir}/train/train.bin", "data.valid": f"{self.dir}/valid/valid.bin"}
        for path in self.data.values():
            shutil.copy(f"{self.dir}/copies/{os.path.basename(path)}", path)
        runs.write_tokens(self.place, f"{self.dir}/relative", 2)
        runs.write_tokens(self.place, f"{self.dir}/alike", 1, str.maketrans("ae", "ea"))
        shutil.copy(f"{self.dir}/relative/train.bin", f"{self.dir}/other.bin")
        self.base = (*(f"{key}={path}" for key, path in self.data.items()), *SETS)
        self.curve, self.valid = self.reference("whole")
        self.initial = f"{self.dir}/whole/checkpoints/step-{STEPS:08}"
        shutil.copytree(self.initial, f"{self.dir}/init")
        shutil.copytree(self.initial, f"{self.dir}/copies/init")
        profile = self.place.call([*self.launcher(), runs.WEFT, "profile", "-o", f"{self.dir}/profile.toml", "--seconds", "1"])
        self.has_profile = profile.status == 0
        if self.has_profile:
            shutil.copy(f"{self.dir}/profile.toml", f"{self.dir}/copies/profile.toml")

    def launcher(self):
        return [runs.MPIRUN, "-n", "2"]

    def reference(self, name, *sets):
        self.place.trained(name, 2, *self.base, *sets)
        return self.curves(self.place.path(name))

    def curves(self, run):
        lines = runs.lines(run)
        return runs.curve(run), {r["step"]: r["loss"] for r in lines if r["kind"] == "valid"}

    def both(self, *sets):
        return [runs.WEFT, "train", runs.DECK] + [x for s in (*self.base, *sets) for x in ("--set", s)]

    # The methods below make rows: (name, word that the refusal must hold, command of rank 0, that of rank 1,
    # what must come of it).

    def keys(self):
        schema = self.place.call([runs.WEFT, "deck", "--schema"]).out
        resolved = tomllib.loads(self.place.call([runs.WEFT, "deck", runs.DECK] + [x for s in self.base for x in ("--set", s)]).out)
        for key, kind in keys_of_schema(schema).items():
            value, *common = (x.format(dir=self.dir) if isinstance(x, str) else x for x in OTHERS.get(key) or (self.other(key, kind, resolved),))
            other = self.both(*common, f"{key}={value}")
            if (alone := self.place.call([runs.WEFT, "deck", *other[2:]])).status != 0:
                raise SystemExit(f"checkpoints.py disagree: {key} = {value} is no valid deck:\n{alone.err}")
            yield key, key, self.both(*common), other, REFUSED

    def other(self, key, kind, resolved):
        """Another valid value of a key, by its type."""
        value = resolved
        for name in key.split("."):
            value = value[name]
        if kind.startswith("true or false"):
            return str(not value).lower()
        if kind.startswith("one of"):
            return next(x for x in kind.removeprefix("one of ").split(", ") if x != value)
        if kind.startswith("integer"):
            return value + 1
        if kind.startswith("number"):
            return value * 2 or 0.5
        raise SystemExit(f"checkpoints.py disagree: {key} is {kind}: give it another value in OTHERS")

    def copies(self):
        same = {**self.data, "model.init": f"{self.dir}/init"}
        for key, copy in COPIES.items():
            common = f"run.steps={STEPS + 2}"  # more steps than the checkpoint has
            yield (f"{key}: a copy of the same", key, self.both(common, f"{key}={same[key]}"),
                   self.both(common, f"{key}=" + copy.format(dir=self.dir)), HARMLESS)

    def files(self):
        """Rows in which rank 1 sees other bytes under the same name, by a mount of its own."""
        if subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode != 0:
            what = "no mounts of its own for a rank (it needs root): other bytes under one name are left out"
            if runs.ALL_TOOLS and os.geteuid() == 0:
                raise SystemExit(f"checkpoints.py disagree: {what}")
            print(what)
            return
        for key, path in self.data.items():
            for what, other in self.harmed(path):
                # What is found while the run trains is found before its last save, but not before its first.
                both = self.both("checkpoint.every=0")
                yield f"{key}: {what}", f"{key}|{path}", both, self.mounted({path: other}, both), REFUSED
        for key, name in (("model.init", "init"), ("checkpoint.resume", "init")):
            other = f"{self.dir}/whole/checkpoints/step-{STEPS - 2:08}"
            path = f"{self.dir}/{name}"
            sets = (f"{key}={path}", f"run.steps={STEPS + 2}")
            yield f"{key}: another checkpoint", f"{key}|{path}", self.both(*sets), self.mounted({path: other}, self.both(*sets)), REFUSED
        if self.has_profile:
            path, other = f"{self.dir}/profile.toml", f"{self.dir}/slower.toml"
            with open(path, encoding="utf-8") as file, open(other, "w", encoding="utf-8") as out:
                out.write(re.sub(r"(?m)^(\w*flops\w* = )([\d.e+]+)", lambda m: f"{m[1]}{float(m[2]) / 3:.6g}", file.read()))
            yield ("schedule.profile: other rates", "schedule.profile", self.both(f"schedule.profile={path}"),
                   self.mounted({path: other}, self.both(f"schedule.profile={path}")), EITHER)
        yield ("run.dir: a directory of its own", "run directory", self.both(), self.mounted({"RUN": None}, self.both()), REFUSED)

    def harmed(self, data):
        with open(data, "rb") as file:
            whole = file.read()
        swapped, large = bytearray(whole), bytearray(whole)
        for at in range(256, len(whole) * 3 // 4, 16):  # behind the header, and before the tables at the end
            swapped[at:at + 4] = whole[at + 2:at + 4] + whole[at:at + 2]
            large[at:at + 2] = b"\xff\xff"
        with open(f"{self.dir}/alike/{os.path.basename(data)}", "rb") as file:
            alike = file.read()
        for what, content in (("another text of the same length", alike), ("a damaged body, tokens in another order", bytes(swapped)),
                              ("a damaged body, tokens that the vocabulary lacks", bytes(large)), ("truncated", whole[:-8]),
                              ("a byte more", whole + b"\0"), ("empty", b"")):
            path = f"{self.dir}/{os.path.basename(data)}.{what.replace(' ', '-')}"
            with open(path, "wb") as file:
                file.write(content)
            yield what, path
        yield "another text", f"{self.dir}/other.bin"
        yield "missing", f"{self.dir}/none"

    def mounted(self, mounts, command):
        """`command`, with other files mounted over these. Other is None: an empty directory in memory; it ends in /none: the file is missing."""
        script = []
        for path, other in mounts.items():
            if other is None:
                script.append(f"mkdir -p {path} && mount -t tmpfs tmpfs {path}")
            elif other.endswith("/none"):
                script.append(f"mount -t tmpfs tmpfs {os.path.dirname(path)}")
            else:
                script.append(f"mount --bind {other} {path}")
        return ["unshare", "-m", "sh", "-c", " && ".join([*script, 'exec "$@"']), "sh", *command]

    def others(self):
        """Rows of things that are in no deck: the program, threads, instruction set, working directory."""
        if patched := self.another_commit():
            yield "another commit of the program", r"version", self.both(), [patched, *self.both()[1:]], REFUSED
        if patched := self.another_build():
            yield "another build of the same commit", r"build", self.both(), [patched, *self.both()[1:]], REFUSED
        yield "OMP_NUM_THREADS", r"thread|OMP_NUM_THREADS", self.both(), ["env", "OMP_NUM_THREADS=2", *self.both()], REFUSED
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
            more_than_sse = re.search(r"(?m)^flags\b.* avx\b", file.read())
        if more_than_sse:
            yield "ONEDNN_MAX_CPU_ISA", r"processor|instruction", self.both(), ["env", "ONEDNN_MAX_CPU_ISA=SSE41", *self.both()], REFUSED
        yield "another working directory", "", self.both(), ["env", "-C", "/", *self.both()], HARMLESS
        sets = ("data.train=train.bin", "data.valid=valid.bin")
        yield ("data.train: relative, another working directory", "data.train", ["env", "-C", f"{self.dir}/copies", *self.both(*sets)],
               ["env", "-C", f"{self.dir}/relative", *self.both(*sets)], REFUSED)

    def another_commit(self):
        """A copy of the program with another hash of its commit."""
        said = self.place.call([runs.WEFT, "--version"]).out
        found = re.search(r"\(([0-9a-f]{7,40}[^)]*)\)", said)
        return self.patched("commit", found[1].encode(), 0) if found else None

    def another_build(self):
        """A copy of the program with another hash in the linker's note: the 20 bytes behind this header."""
        return self.patched("build", b"\4\0\0\0\x14\0\0\0\3\0\0\0GNU\0", 16)

    def patched(self, name, text, at):
        """A copy of the program in which a bit is flipped, a given number of bytes behind the beginning of the text."""
        with open(runs.WEFT, "rb") as file:
            program = bytearray(file.read())
        if (found := program.find(text)) < 0:
            return None
        program[found + at] ^= 1
        path = f"{self.dir}/weft-{name}"
        with open(path, "wb") as file:
            file.write(program)
        os.chmod(path, 0o755)
        return path

    # The methods below judge what came of it.

    def compare(self, name, word, first, second, must):
        self.number += 1
        run = f"{self.dir}/runs/{self.number}"
        sets = ["--set", f"run.dir={run}"]
        commands = [self.with_run(command, sets, run) for command in (first, second)]
        ended = self.call([runs.MPIRUN, "-n", "1", *commands[0], ":", "-n", "1", *commands[1]])
        said = self.judge(ended, word, run, must, commands)
        shutil.rmtree(run, ignore_errors=True)
        return said

    def with_run(self, command, sets, run):
        own = any(x.startswith("run.dir=") for x in command)
        command = [x.replace("RUN", run) for x in command]
        return command if own or "train" not in command else command + sets

    def call(self, command):
        try:
            return self.place.call(command, 90)
        except subprocess.TimeoutExpired:
            return runs.Ended(-1, "", "", 90)

    def judge(self, ended, word, run, must, commands):
        lines, saved = runs.errors(ended), os.path.isdir(f"{run}/checkpoints")
        if ended.status == -1:
            return Said("does not end", "", False)
        if ended.status == 0:
            return self.judge_curve(run, must, commands)
        text = " | ".join(line.removeprefix("weft: error: ") for line in lines) or ended.err.strip()[-300:]
        named = len(lines) == 1 and re.search(word, lines[0]) is not None and "rank" in lines[0]
        good = ended.status in (runs.BAD_INPUT, runs.BAD_CHECKPOINT) and named and not saved and must != HARMLESS
        verdict = "refused" if good else f"refused with {ended.status}" + ("" if len(lines) == 1 else f", {len(lines)} lines") + (
            "" if named else ", not by its name") + (", after it has saved" if saved else "")
        return Said(verdict, text[:400], good)

    def judge_curve(self, run, must, commands):
        """Compares the curve of a run that went on with that of ranks that agree."""
        reference = (self.curve, self.valid)
        again = f"{run}-again"
        if commands[0] != self.with_run(self.both(), ["--set", f"run.dir={run}"], run):
            ended = self.place.call([*self.launcher(), *[x.replace(run, again) for x in commands[0]]])
            reference = self.curves(again) if ended.status == 0 else None
            shutil.rmtree(again, ignore_errors=True)
        found = self.curves(run)
        if found != reference:
            return Said("TRAINS ON WITH ANOTHER CURVE", "", False)
        newest = sorted(os.listdir(f"{run}/checkpoints"))[-1] if os.path.isdir(f"{run}/checkpoints") else None
        if newest is None or self.place.verify(f"{run}/checkpoints/{newest}").status != 0:
            return Said("goes on, and its checkpoint is not whole", str(newest), False)
        return Said("goes on, on the curve" if must == REFUSED else "harmless", "", must != REFUSED)
