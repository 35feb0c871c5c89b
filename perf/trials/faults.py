"""Each system call on files of a run fails, one call a run: what becomes of the run and of its checkpoints."""
import collections, concurrent.futures, errno, json, os, random, re, shutil, signal, socket, subprocess, threading

from . import counted, power, runs
from .judge import Judge

LIBRARY = os.path.abspath(os.environ.get("WEFT_FAULTS") or os.path.join(os.path.dirname(runs.WEFT), "tests/libweft_faults.so"))
PHASES = ("start", "save", "resume", "retention", "steps")
ERRORS = ("EIO", "ESTALE", "EACCES", "ENOSPC", "ENOLCK", "short")
SECONDS = 60  # a run that takes longer hangs

# These are the errors of each kind of call, beside EIO and ESTALE.
TRANSFERS = ("read", "pread64", "readv", "write", "pwrite64", "writev")
MORE_SPACE = ("write", "pwrite64", "writev", "open+create", "mkdir", "rename", "renameat2", "link", "symlink", "fsync", "fdatasync", "close",
              "ftruncate", "fallocate")
BY_NAME = ("open+create", "openat", "rename", "renameat2", "link", "symlink", "readlink", "unlink", "unlinkat", "rmdir", "mkdir", "newfstatat",
           "access", "statfs", "utimensat", "mmap")

# The settings make a model of 28 thousand parameters, and four sequences a step from a token file.
SETS = ("model.vocab=260", "data.synthetic=false", "data.global_batch=4", "data.valid_sequences=4", "data.valid_every=4", "log.tensorboard=true",
        "checkpoint.every=2", "checkpoint.keep=2")
LAST = 10  # step of the longest run

Point = collections.namedtuple("Point", "scenario ranks rank phase call number file")
Case = collections.namedtuple("Case", "point error")


def errors_of(call):
    found = ["EIO", "ESTALE"]
    found += ["EACCES"] if call in BY_NAME else []
    found += ["ENOSPC"] if call in MORE_SPACE else []
    found += ["ENOLCK"] if call in ("fcntl", "flock") else []
    return found + (["short"] if call in TRANSFERS else [])


def can_inject():
    return os.path.exists(LIBRARY)


class Files:
    """A directory in memory with all that a run reads and writes: deck, data and the run."""

    def __init__(self, path):
        self.path, self.run = path, os.path.join(path, "runs/a")
        self.checkpoints = os.path.join(self.run, "checkpoints")

    def names(self):
        """What there is in the directory of checkpoints."""
        return sorted(os.listdir(self.checkpoints)) if os.path.isdir(self.checkpoints) else []

    def steps(self):
        """The steps of all directories that have a checkpoint's name."""
        return sorted(runs.step_of(n) for n in self.names() if re.fullmatch(r"step-\d+", n))

    def checkpoint(self, step):
        return os.path.join(self.checkpoints, f"step-{step:08}")

    def command(self, ranks, steps, *sets, faults=()):
        data = (f"data.train={self.path}/train.bin", f"data.valid={self.path}/valid.bin")
        launcher = [runs.MPIRUN, "-n", str(ranks)] if ranks > 1 else []
        variables = ["env", *faults] if faults else []
        every = (f"run.dir={self.run}", f"run.steps={steps}", *data, *SETS, *sets)
        return launcher + variables + [runs.WEFT, "train", f"{self.path}/deck.toml"] + [x for s in every for x in ("--set", s)]


class Scenario:
    """The steps of the checkpoints that are there before, the command of which a call fails, and the step from which that goes on."""

    def __init__(self, name, before, steps, *sets, start=0, phases=PHASES):
        self.name, self.before, self.steps, self.sets, self.start, self.phases = name, before, steps, sets, start, phases

    def command(self, files, ranks, faults=()):
        sets = [s.replace("RUN", files.run) for s in self.sets]
        return files.command(ranks, self.steps, *sets, faults=faults)


SCENARIOS = (Scenario("fresh", (), 6),
             Scenario("resumed", (4, 6), LAST, start=6),
             Scenario("only one", (6,), 8, start=6, phases=("resume",)),
             Scenario("replaced", (4, 6), 8, "checkpoint.resume=RUN/checkpoints/step-00000004", start=4))


def phase_of(scenario, call, file, saving):
    """The phase of a run that the call belongs to, one of PHASES."""
    if ".removed.tmp" in file or (call == "rename" and re.search(r"/step-\d+$", file)):
        return "retention"
    if not saving:
        return "start" if scenario.name == "fresh" else "resume"
    return "save" if "/checkpoints" in file else "steps"


class Faults:
    def __init__(self, place, arguments):
        self.place, self.a, self.rng = place, arguments, random.Random(arguments.seed)
        self.outcomes, self.problems, self.lock = collections.defaultdict(collections.Counter), [], threading.Lock()
        self.reached = self.number = 0

    # The methods below make templates.

    def go(self):
        self.prepare()
        self.compare_with_strace()
        scenarios = [s for s in SCENARIOS if s.name in self.a.scenario]
        points = [p for ranks in self.a.ranks for scenario in scenarios for rank in range(ranks) for p in self.record(scenario, ranks, rank)]
        points = [p for p in points if p.phase in self.a.phase and (self.a.calls is None or p.call in self.a.calls)]
        cases = [Case(p, e) for p in points for e in errors_of(p.call) if e in self.a.errors]
        chosen = cases if self.a.sample is None else self.rng.sample(cases, min(self.a.sample, len(cases)))
        print(f"{len(points)} calls, {len(cases)} cases of a call and an error, {len(chosen)} of them tried", flush=True)
        with concurrent.futures.ThreadPoolExecutor(self.a.jobs) as pool:
            try:
                for _ in pool.map(self.try_case, chosen):
                    pass
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
        self.report(points, chosen)
        return not self.problems and self.enough_came(chosen)

    def enough_came(self, chosen):
        """Whether most of the calls came again. A few depend on the time; where none comes, the trial no longer finds what it recorded."""
        return self.reached >= 0.8 * len(chosen) > 0

    def prepare(self):
        """The curve of a run that nothing happens to, and what is there before each scenario."""
        self.template = Files(os.path.join(self.place.memory, "fresh"))
        os.mkdir(self.template.path)
        shutil.copy(runs.DECK, f"{self.template.path}/deck.toml")
        runs.write_tokens(self.place, self.template.path, 1)
        whole = Files(os.path.join(self.place.memory, "whole"))
        shutil.copytree(self.template.path, whole.path)
        self.expect_good(self.run(whole.command(1, LAST + 1)))
        self.judge = Judge(self.place, self.run, runs.curve(whole.run),
                           lambda case: None if case.error == "short" else os.strerror(getattr(errno, case.error)))
        self.interrupted = Files(os.path.join(self.place.memory, "interrupted"))
        shutil.copytree(self.template.path, self.interrupted.path)
        self.expect_good(self.run(self.interrupted.command(1, 6)))
        self.interrupt(self.interrupted)

    def interrupt(self, files):
        """Leaves what a run killed in step 8's save leaves: a shard and a link half made, the lock, lines of steps that are lost."""
        os.mkdir(f"{files.checkpoints}/step-00000008.tmp")
        with open(f"{files.checkpoints}/step-00000008.tmp/shard-00000.h5", "wb") as file:
            file.write(bytes(1000))
        os.symlink("step-00000008", f"{files.checkpoints}/latest.tmp")
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            kernel = f"{file.read().strip()} {os.readlink('/proc/self/ns/pid')}"
        with open(f"{files.run}/lock", "w", encoding="ascii") as file:
            json.dump({"host": socket.gethostname(), "pid": 2 ** 22 + 1, "job": "", "since": "2026-01-01T00:00:00Z", "kernel": kernel, "started": 1},
                      file)
        for name in ("metrics.jsonl", "hashes.jsonl"):
            with open(f"{files.run}/{name}", "a", encoding="ascii") as file:
                file.write('{"kind": "train", "step": 7, "loss": 0, "grad_norm": 0, "state_hash": "lost", "values": []}\n{"kind": "tra')

    def expect_good(self, ended):
        if ended.status != 0:
            raise SystemExit(f"checkpoints.py: a run without any fault ended with {ended.status}:\n{ended.err[-2000:]}")

    def run(self, command):
        """Runs a command; kills it, with all that it started, after SECONDS, and returns status -1 then."""
        process = subprocess.Popen(command, cwd=runs.ROOT, env=self.place.environment, text=True, errors="replace", stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        try:
            out, err = process.communicate(timeout=SECONDS)
            return runs.Ended(process.returncode, out, err, 0)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            return runs.Ended(-1, out, err, SECONDS)

    def made(self, scenario, name):
        files = Files(os.path.join(self.place.memory, name))
        shutil.copytree((self.interrupted if scenario.before else self.template).path, files.path, symlinks=True)
        for step in set(files.steps()) - set(scenario.before):
            shutil.rmtree(files.checkpoint(step))
        return files

    def variables(self, files, rank, log, *more):
        return (f"LD_PRELOAD={LIBRARY}", f"WEFT_FAULTS_UNDER={files.path}", f"WEFT_FAULTS_RANK={rank}",
                f"WEFT_FAULTS_LOG={log}", *more)

    # The methods below find the calls.

    def compare_with_strace(self):
        """Counts the calls of a fresh run on one rank by strace, too: the library must have seen the same."""
        if not power.can_trace():
            what = "there is no strace here, or it may not trace: nobody looked whether all calls are counted"
            if runs.ALL_TOOLS:
                raise SystemExit(f"checkpoints.py: {what}")
            return print(what)
        files, log, trace = self.made(SCENARIOS[0], "counted"), f"{self.place.memory}/counted.log", f"{self.place.memory}/counted.trace"
        self.expect_good(self.run(SCENARIOS[0].command(files, 1, self.variables(files, 0, log))))
        shutil.rmtree(files.path)
        files = self.made(SCENARIOS[0], "counted")
        self.expect_good(self.run(["strace", "-f", "-qq", "-y", "-s", "0", "-e", "trace=file,desc", "-e", "signal=none", "-o", trace,
                                   *SCENARIOS[0].command(files, 1)]))
        shutil.rmtree(files.path)
        by_strace, by_library = counted.calls_of_strace(trace, files.path), counted.calls_of_library(log)
        different = counted.differences(by_strace, by_library)
        self.problems += [(None, line) for line in different]
        print("\n".join([*different, f"a fresh run makes {sum(by_library.values())} calls on files; strace sees "
                         + ("the same" if not different else "others")]), flush=True)

    def record(self, scenario, ranks, rank):
        """All calls that can fail, found by a run without faults."""
        name = f"{scenario.name}-{ranks}-{rank}".replace(" ", "-")
        files, log = self.made(scenario, name), os.path.join(self.place.memory, f"{name}.log")
        self.expect_good(self.run(scenario.command(files, ranks, self.variables(files, rank, log))))
        points, saving = [], False
        with open(log, encoding="utf-8") as file:
            for line in file:
                call, number, path = line.rstrip("\n").split("\t")
                saving = saving or (re.search(r"/step-\d+\.tmp", path) is not None and call in ("mkdir", "open+create"))
                points.append(Point(scenario.name, ranks, rank, phase_of(scenario, call, path, saving), call, int(number), path))
        shutil.rmtree(files.path)
        return [p for p in points if p.phase in scenario.phases]

    # The methods below run the cases.

    def try_case(self, case):
        with self.lock:
            self.number += 1
            name = f"case{self.number}"
        scenario = next(s for s in SCENARIOS if s.name == case.point.scenario)
        files, log = self.made(scenario, name), os.path.join(self.place.memory, f"{name}.log")
        error = 0 if case.error == "short" else getattr(errno, case.error)
        at = f"{case.point.call}\t{case.point.number}\t{case.point.file}"
        ended = self.run(scenario.command(files, case.point.ranks, self.variables(files, case.point.rank, log, f"WEFT_FAULTS_AT={at}",
                                                                                  f"WEFT_FAULTS_ERROR={error}")))
        struck = os.path.exists(log) and os.path.getsize(log) > 0
        problems, outcome = self.judge.judge(case, scenario, files, ended, struck)
        if not problems or self.a.keep is None:
            shutil.rmtree(files.path)
        else:
            shutil.copytree(files.path, f"{self.a.keep}/{name}", symlinks=True, dirs_exist_ok=True)
            shutil.rmtree(files.path)
        if os.path.exists(log):
            os.remove(log)
        with self.lock:
            self.reached += struck
            self.outcomes[case.point.phase][outcome if struck else "the call did not come"] += 1
            for what in problems:
                self.problems.append((case, what))
                print(f"{self.where(case)}: {what}", flush=True)

    def where(self, case):
        p = case.point
        return f"{p.phase} ({p.scenario}{f', rank {p.rank} of {p.ranks}' if p.ranks > 1 else ''}): {p.call} #{p.number} of {p.file}: {case.error}"

    def report(self, points, chosen):
        print(f"{'':10s} {'calls':>6s} {'cases':>6s}")
        for phase in PHASES:
            outcomes = self.outcomes[phase]
            if outcomes:
                print(f"{phase:10s} {sum(p.phase == phase for p in points):6d} {sum(outcomes.values()):6d}  "
                      + ", ".join(f"{n} {what}" for what, n in outcomes.most_common()))
        cases = {case for case, _ in self.problems if case}
        print(f"{len(points)} calls, {len(chosen)} cases, {self.reached} in which the call came and failed: {len(cases)} with something wrong",
              flush=True)
        if not self.enough_came(chosen):
            print("too few of the calls came", flush=True)
