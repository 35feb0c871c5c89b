"""Runs of the real program on trials/tiny.toml, their curves and their checkpoints."""
import collections, ctypes, glob, json, os, random, re, shutil, signal, subprocess, tempfile, time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WEFT = os.path.abspath(os.environ.get("WEFT") or os.path.join(ROOT, "build/cpu/weft"))
DECK = os.path.join(ROOT, "perf/trials/tiny.toml")
MPIRUN = os.environ.get("MPIRUN", "mpirun")
NAME = os.path.basename(WEFT)[:15]  # the name of its processes
BAD_INPUT, BAD_CHECKPOINT = 2, 4
# Whether all that the trials need was installed (jobs/setup.sh --tests): what is missing then is a failure, and nothing is left out.
ALL_TOOLS = os.environ.get("WEFT_TEST_TOOLS") == "all"

Ended = collections.namedtuple("Ended", "status out err seconds")


class Place:
    """A directory of the trials' own, and the environment that keeps what killed runs leave inside it."""

    def __init__(self, where=None):
        # By its real name, as strace gives it.
        self.dir = os.path.realpath(tempfile.mkdtemp(prefix="weft-trials-", dir=where))
        self.memory = tempfile.mkdtemp(prefix="weft-trials-", dir="/dev/shm")
        self.environment = {"OMP_NUM_THREADS": "1", "OMP_PROC_BIND": "false", "OMPI_ALLOW_RUN_AS_ROOT": "1",
                            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
                            "OMPI_MCA_hwloc_base_binding_policy": "none", "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
                            **os.environ, "TMPDIR": self.memory, "OMPI_MCA_btl_vader_backing_directory": self.memory,
                            "OMPI_MCA_osc_sm_backing_directory": self.memory}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for path in (self.dir, self.memory):
            shutil.rmtree(path, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.dir, name)

    def call(self, command, seconds=120):
        begin = time.monotonic()
        done = subprocess.run(command, cwd=ROOT, env=self.environment, text=True, errors="replace", capture_output=True,
                              stdin=subprocess.DEVNULL, timeout=seconds)
        return Ended(done.returncode, done.stdout, done.stderr, time.monotonic() - begin)

    def train(self, run, ranks, *sets):
        return self.call(train(self.path(run), ranks, *sets))

    def trained(self, run, ranks, *sets):
        """Trains like train(), in a run that has no reason to fail."""
        ended = self.train(run, ranks, *sets)
        if ended.status != 0:
            raise SystemExit(f"checkpoints.py: a run without any damage ended with {ended.status}:\n{ended.err[-2000:]}")
        return ended

    def verify(self, checkpoint):
        return self.call([WEFT, "checkpoint", "verify", checkpoint])


def train(run_dir, ranks, *sets):
    command = [MPIRUN, "-n", str(ranks)] if ranks > 1 else []
    return command + [WEFT, "train", DECK] + [x for s in (f"run.dir={run_dir}", *sets) for x in ("--set", s)]


def mesh(sizes):
    """The setting of a mesh: pairs of an axis and its size, outermost first."""
    return f"parallel.mesh={{ {', '.join(f'{axis} = {size}' for axis, size in sizes)} }}"


def bits_of(replica, data, tensor, context):
    """What the bits of a run depend on; runs with equal values have equal bits. Another number of replicas is another order of the gradients'
    sum, tensor cuts the sums of products and norms, and context those over the tokens of a sequence."""
    return (tensor, context, replica, data if replica > 1 else 1)


def write_tokens(place, directory, seed, letters=None):
    """Makes train.bin and valid.bin, of 257 tokens: bytes, and the end of a document. `letters`: a translation of the text (str.maketrans), for other tokens of the same number."""
    rng, text = random.Random(seed), os.path.join(directory, "text.txt")
    words = ("the ", "ship ", "sails ", "slowly ", "over ", "a ", "grey ", "sea, ", "while ", "rain ", "falls. ")
    with open(text, "w", encoding="ascii") as file:
        for _ in range(40):
            file.write("".join(rng.choice(words) for _ in range(rng.randint(12, 40))).translate(letters or {}) + "\n\n")
    ended = place.call([WEFT, "data", "tokenize", text, "--train", f"{directory}/train.bin", "--valid", f"{directory}/valid.bin",
                        "--valid-fraction", "0.2"])
    if ended.status != 0:
        raise SystemExit(f"checkpoints.py: cannot make token files:\n{ended.err[-2000:]}")
    os.remove(text)


def errors(ended):
    return [line for line in ended.err.splitlines() if line.startswith("weft: error:")]


def lines(run_dir):
    """The lines of metrics.jsonl, without a last line that a killed run left torn."""
    try:
        with open(os.path.join(run_dir, "metrics.jsonl"), encoding="utf-8", errors="replace") as file:
            return [json.loads(line) for line in file.read().split("\n")[:-1]]
    except FileNotFoundError:
        return []


def curve(run_dir):
    """By step, the numbers that must not depend on interruptions or ranks."""
    return {r["step"]: (r["loss"], r["grad_norm"], r["state_hash"]) for r in lines(run_dir) if r["kind"] == "train"}


def continued(ended):
    """(step, hash of the loaded state) of a run that went on from a checkpoint, else None."""
    found = re.search(r"continues from step (\d+), state ([0-9a-f]{16})", ended.err)
    return (int(found[1]), found[2]) if found else None


class Listed:
    """`weft checkpoint ls`: names of the whole ones, newest first, and of those that it calls damaged. A run that was killed before it wrote
    its deck is none yet, and has nothing to list."""

    def __init__(self, place, checkpoints):
        self.status, self.damaged, self.whole = 0, [], []
        if not os.path.isdir(checkpoints) and not os.path.exists(os.path.join(os.path.dirname(checkpoints), "deck.toml")):
            return
        ended = place.call([WEFT, "checkpoint", "ls", checkpoints])
        rows = [line.split() for line in ended.out.splitlines() if line.startswith("step-") and "unfinished" not in line]
        self.status = ended.status
        self.damaged = [r[0] for r in rows if r[2] == "damaged:"]
        self.whole = [r[0] for r in rows if r[2] not in ("damaged:", "cannot")]


def manifest(checkpoint):
    with open(os.path.join(checkpoint, "manifest.json"), encoding="utf-8") as file:
        return json.load(file)


def shards(checkpoint):
    """What slices.jsonl says of each shard file."""
    with open(os.path.join(checkpoint, "slices.jsonl"), encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def step_of(name):
    return int(name.removeprefix("step-"))


def adopt_orphans():
    """Makes processes that outlive their launcher children of this process, so that they are found."""
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def waits_in(pid):
    """The functions of the kernel in which a process's threads wait."""
    found = []
    for task in glob.glob(f"/proc/{pid}/task/*/wchan"):
        try:
            with open(task, encoding="ascii") as file:
                found.append(file.read().strip())
        except OSError:
            pass
    return " ".join(found)


def descendants(of):
    """Living processes that descend from `of`: {pid: name}."""
    parents, names = {}, {}
    for entry in os.listdir("/proc"):
        try:
            with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as file:
                text = file.read()
        except (OSError, ValueError):
            continue
        if not entry.isdigit():
            continue
        name, rest = text[text.index("(") + 1:text.rindex(")")], text[text.rindex(")") + 2:].split()
        if rest[0] != "Z":
            parents[int(entry)], names[int(entry)] = int(rest[1]), name
    found = {}
    for pid in parents:
        ancestor = parents[pid]
        while ancestor != of and ancestor in parents:
            ancestor = parents[ancestor]
        if ancestor == of:
            found[pid] = names[pid]
    return found


def kill(pids):
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
