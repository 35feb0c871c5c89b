"""Kills at random moments: no checkpoint may be lost, and every resume goes on on the curve of a run that nobody killed."""
import collections, os, random, shutil, statistics, subprocess, time

from . import runs
from .watch import MOMENTS, Watch, wait_until

DEADLINE = 300  # seconds that what is left of a run has to end
KEEP = 2


class Job:
    """A run beside this process, with all that descends from it."""

    def __init__(self, place, command):
        self.err = place.path("err")
        with open(self.err, "wb") as err:
            self.launcher = subprocess.Popen(command, cwd=runs.ROOT, env=place.environment, stdin=subprocess.DEVNULL,
                                             stdout=subprocess.DEVNULL, stderr=err)
        self.status = None

    def alive(self):
        try:
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                if found[0] == self.launcher.pid:
                    self.status = self.launcher.returncode = os.waitstatus_to_exitcode(found[1])
        except ChildProcessError:
            pass
        return self.status is None

    def kill(self, which, rng):
        left = runs.descendants(os.getpid())
        ranks = [pid for pid, name in left.items() if name == runs.NAME]
        one = which == "one" and len(ranks) > 1
        runs.kill([rng.choice(ranks)] if one else left)
        return one

    def end(self):
        """Waits for all of it; what had to be killed."""
        until = time.monotonic() + DEADLINE
        while self.alive() or runs.descendants(os.getpid()):
            if time.monotonic() > until:
                left = runs.descendants(os.getpid())
                described = ", ".join(f"{name} {pid} ({runs.waits_in(pid)})" for pid, name in left.items())
                runs.kill(left)
                self.status = self.status or -9
                return described
            time.sleep(0.002)
        return ""

    def said(self):
        with open(self.err, encoding="utf-8", errors="replace") as file:
            return runs.Ended(self.status, "", file.read(), 0)


def schedules_of(pipe):
    """Schedules and chunks that a pipe of the tiny model's four layers, embedding and head included, can have."""
    return [("gpipe", 1), ("1f1b", 1), ("zb_h1", 1)] + ([("interleaved", 2), ("zbv", 2)] if pipe == 2 else [])


class Kills:
    def __init__(self, place, arguments):
        self.place, self.a, self.rng = place, arguments, random.Random(arguments.seed)
        self.under_way, self.problems = collections.Counter(), []
        self.curves = {}
        self.kills = self.of_one = self.of_pipes = self.of_tensors = self.of_both = self.of_contexts = self.resumes = self.attempts = self.finished = self.trajectories = 0
        self.startups = []
        runs.adopt_orphans()

    def problem(self, what):
        self.problems.append(what)
        print(f"attempt {self.attempts} of run {self.trajectories}: {what}", flush=True)
        if self.a.keep:
            shutil.copytree(self.run, f"{self.a.keep}/{len(self.problems)}", symlinks=True, dirs_exist_ok=True)

    def reference(self, tensor, context):
        """The curve of a run that nobody kills: its bits depend on the sizes of the axes tensor and context, and on no other of these."""
        if (tensor, context) not in self.curves:
            name = f"whole{tensor}-{context}"
            ended = self.place.trained(name, max(2, tensor * context), f"run.steps={self.a.steps}",
                                       runs.mesh((("context", context), ("tensor", tensor))))
            self.curves[tensor, context] = runs.curve(self.place.path(name))
            self.stepping = 2 * sum(r["step_s"] for r in runs.lines(self.place.path(name)) if r["kind"] == "train")
            self.startups.append(ended.seconds - self.stepping / 2)
            if list(self.curves[tensor, context]) != list(range(1, self.a.steps + 1)):
                raise SystemExit("checkpoints.py: the run that nobody kills lacks steps")
        return self.curves[tensor, context]

    def go(self):
        while self.kills < self.a.kills:
            self.tensor, self.context = self.rng.choice(((1, 1), (1, 1), (2, 1), (4, 1), (1, 2), (1, 4), (2, 2)))
            self.curve = self.reference(self.tensor, self.context)
            self.run, self.before = self.place.path(f"run{self.trajectories}"), None
            self.trajectories += 1
            done = False
            while not done:
                done = self.attempt()
            shutil.rmtree(self.run)
        self.report()
        return not self.problems

    def wait_for_moment(self, job):
        """True when there is something to kill; what a save does is watched for in half of the attempts."""
        checkpoints, kind = os.path.join(self.run, "checkpoints"), self.rng.random()
        if kind < 0.2:
            time.sleep(self.rng.random() * statistics.median(self.startups))
            return job.alive()
        if kind < 0.5:
            known, begin = self.last_step(), time.monotonic()
            if not wait_until(lambda: self.last_step() != known, job.alive):
                return False
            self.startups.append(time.monotonic() - begin)
            time.sleep(self.rng.random() * self.stepping)
            return job.alive()
        if not wait_until(lambda: os.path.isdir(checkpoints), job.alive):
            return False
        with Watch(checkpoints) as watch:
            found = watch.wait_for(self.rng.choice(list(MOMENTS)), self.rng.randint(1, 3), job.alive)
        time.sleep(self.rng.choice((0, self.rng.random() * 0.005)))
        return found and job.alive()

    def last_step(self):
        """A cheap sign of progress: the size of a file that grows with each step."""
        try:
            return os.stat(os.path.join(self.run, "metrics.jsonl")).st_size
        except FileNotFoundError:
            return 0

    def attempt(self):
        """One start; True when it was the run's last."""
        self.attempts += 1
        share = self.tensor * self.context
        groups, every = self.rng.randint(1, 4 // share), self.rng.choice((1, 2, 3, 5))
        pipe = self.rng.choice([n for n in range(1, groups + 1) if groups % n == 0])
        self.of_pipes += pipe > 1
        self.of_tensors += self.tensor > 1
        self.of_both += pipe > 1 and self.tensor > 1
        self.of_contexts += self.context > 1
        schedule, chunks = self.rng.choice(schedules_of(pipe))
        old = runs.lines(self.run)
        job = Job(self.place, runs.train(self.run, share * groups, f"run.steps={self.a.steps}", f"checkpoint.every={every}",
                                         f"checkpoint.keep={KEEP}", runs.mesh((("pipe", pipe), ("context", self.context), ("tensor", self.tensor))),
                                         f"pipeline.schedule={schedule}", f"pipeline.chunks={chunks}",
                                         f"checkpoint.background={self.rng.choice(('true', 'true', 'false'))}"))
        killed = self.kills < self.a.kills and self.wait_for_moment(job)
        if killed:
            self.of_one += job.kill(self.rng.choice(("one", "all")), self.rng)
            self.kills += 1
        if left := job.end():
            self.problem(f"{'what was left of a run' if killed else 'a run'} did not end: {left}; {job.said().err[-500:]!r}")
        if not killed and job.status != 0:
            self.problem(f"a run that nobody killed ended with {job.status}: {job.said().err[-500:]}")
        self.check_curve(job.said(), old)
        self.check_checkpoints(killed)
        if killed:
            return False
        self.finished += 1
        if list(runs.curve(self.run)) != list(self.curve):
            self.problem("a run that ended lacks steps")
        return True

    def check_curve(self, said, old):
        at = runs.continued(said)
        if at:
            self.resumes += 1
            if at[0] != self.before:
                self.problem(f"it went on from step {at[0]}, the newest checkpoint is of step {self.before}")
            if at[1] != self.curve[at[0]][2]:
                self.problem(f"off the curve: the state of step {at[0]} is {at[1]} and should be {self.curve[at[0]][2]}")
        new = runs.lines(self.run)
        self.stepped = any(line not in old for line in new)
        if not at and self.before and self.stepped:
            self.problem(f"it began again, though there is a checkpoint of step {self.before}")
        steps = runs.curve(self.run)
        if list(steps) != list(range(1, len(steps) + 1)):
            self.problem(f"metrics.jsonl has the steps {list(steps)}")
        for step, values in steps.items():
            if values != self.curve[step]:
                self.problem(f"off the curve: step {step} is {values} and should be {self.curve[step]}")

    def check_checkpoints(self, killed):
        checkpoints = os.path.join(self.run, "checkpoints")
        listed = runs.Listed(self.place, checkpoints)
        said_to_be_there = [r["step"] for r in runs.lines(self.run) if r["kind"] == "save" and r["ok"]]
        known = max([self.before or 0, *said_to_be_there])
        newest = runs.step_of(listed.whole[0]) if listed.whole else 0
        if newest < known:
            self.problem(f"lost: the newest checkpoint is of step {newest}, there was one of step {known}")
        if listed.damaged or listed.status != 0:
            self.problem(f"visible and not whole: {listed.damaged}, status {listed.status}")
        for name in listed.whole:
            if (ended := self.place.verify(f"{checkpoints}/{name}")).status != 0:
                self.problem(f"{name} is listed as whole: {ended.err.strip()}")
        latest = os.path.join(checkpoints, "latest")
        if said_to_be_there and os.path.basename(os.path.realpath(latest)) not in listed.whole:
            self.problem(f"latest is {os.path.realpath(latest)}; whole are {listed.whole}")
        if killed:
            self.under_way[self.phase(checkpoints, listed, latest)] += 1
        self.before = newest or None

    def phase(self, checkpoints, listed, latest):
        """What the kill interrupted, by what it left."""
        left = sorted(os.listdir(checkpoints)) if os.path.isdir(checkpoints) else []
        unfinished = [n for n in left if n.endswith(".tmp") and n.startswith("step-")]
        if any(".removed" in n for n in unfinished):
            return "removing an old one"
        for name in unfinished:
            inside = os.listdir(os.path.join(checkpoints, name))
            if "manifest.json" in inside:
                return "save: manifest, before the rename"
            if "slices.jsonl" in inside:
                return "save: index" if "index.h5" in inside else "save: descriptions"
            return "save: shards" if inside else "save: begun"
        if "latest.tmp" in left or (listed.whole and os.path.basename(os.path.realpath(latest)) != listed.whole[0]):
            return "between rename and latest"
        if len(listed.whole) > KEEP:
            return "latest moved, before the removal"
        return "steps" if self.stepped else "start-up"

    def report(self):
        def count(word):
            return sum(p.startswith(word) for p in self.problems)
        print(f"{self.kills} kills ({self.of_one} of one rank, {self.of_pipes} starts with pipes, {self.of_tensors} with tensor, {self.of_both} with both, {self.of_contexts} with context) in {self.trajectories} runs of {self.a.steps} steps on 1 to 4 ranks: "
              + ", ".join(f"{n} {phase}" for phase, n in sorted(self.under_way.items(), key=lambda p: -p[1])))
        print(f"  {self.resumes} resumes, {self.finished} runs to their end: checkpoints lost {count('lost')}, resumes off the curve "
              f"{count('off')}, other problems {len(self.problems) - count('lost') - count('off')}", flush=True)
