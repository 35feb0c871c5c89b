"""What may become of a run of which one system call failed, and of its checkpoints."""
import os, re

from . import runs

CODES = (1, 2, 4, 6)
ADVICE = ("lseek", "sync_file_range", "fadvise64")  # where a file's holes are, and what the system may do ahead of time


def must_be_told(point):
    """Whether a run that goes on must say that this call of a save failed. Where it need not, nothing is lost: these are the exceptions."""
    if point.phase not in ("save", "retention") or point.call in ADVICE:
        return False
    in_new_one = re.search(r"/step-\d+\.tmp/", point.file)
    if point.call == "renameat2":
        return False  # two renames do what it would have done
    if point.call == "openat":
        return not (in_new_one and "/shard-" in point.file and point.number in (1, 3))  # O_DIRECT; the page cache will do
    if point.call == "close":
        return bool(in_new_one) and point.number == 1  # of the writer; what the others close was only read, or is behind the fsync
    return True


class Judge:
    """`run` runs a command; `curve` is that of a run to which nothing happens; `error_text` gives what the system says of a case's error, if anything."""

    def __init__(self, place, run, curve, error_text):
        self.place, self.run, self.curve, self.error_text = place, run, curve, error_text

    def judge(self, case, scenario, files, ended, came):
        """([what is wrong], what the run did). `ended` is the end of the run in `files`, of which one call failed, if it `came`."""
        problems, said = [], runs.errors(ended)
        warned = [line for line in ended.err.splitlines() if line.startswith("weft: warning:")]
        if ended.status == -1:
            problems.append(f"it did not end in {ended.seconds} s: {ended.err[-300:]!r}")
        elif ended.status == 0:
            problems += [f"it ended with 0 and an error: {said}"] if said else []
            if came and must_be_told(case.point) and not self.is_clear(case, warned):
                problems.append(f"it went on, and no warning gives the error: {warned}")
        elif ended.status not in CODES:
            problems.append(f"it ended with {ended.status}: {ended.err[-400:]!r}")
        elif ended.status == runs.BAD_INPUT and case.error not in ("EACCES", "short"):
            problems.append(f"it ended with {ended.status}, as if the user had to change something: {said}")
        elif len(said) != 1:
            problems.append(f"it ended with {ended.status} and {len(said)} lines: {said}")
        elif not self.is_clear(case, said + warned):
            problems.append(f"it ended with {ended.status}, and nothing says why: {said[0]}")
        problems += self.check_began(scenario, files, ended)
        problems += self.check_none_is_damaged(files, ended)
        problems += self.check_curve(scenario, files, warned, "the run")
        problems += self.check_after(scenario, files, ended, warned)
        outcome = (f"refused with one line, code {ended.status}" if ended.status in CODES else
                   f"ended with {ended.status}" if ended.status else
                   "went on with a warning" if warned else "went on")
        return problems, outcome

    def is_clear(self, case, lines):
        """Whether a line gives the system's reason. A short read or write has none: the program goes on with the rest."""
        text = self.error_text(case)
        return text is None or any(text in line for line in lines)

    def check_began(self, scenario, files, ended):
        """A run that has checkpoints goes on from the one that it would have gone on from without the fault, or does nothing."""
        at = runs.continued(ended)
        if at and (at[0] != scenario.start or at[1] != self.curve[at[0]][2]):
            return [f"it went on from {at}, and not from step {scenario.start}"]
        if scenario.before and not at and (ended.status == 0 or re.search(r"^step 1/", ended.err, re.M)):
            return ["it trained from step 0, though there are checkpoints"]
        return []

    def check_none_is_damaged(self, files, ended):
        """Every checkpoint is whole, and what cannot be read is no damage: none is passed over, and none is renamed as damaged."""
        said = [line for line in ended.err.splitlines() if re.search(r"passed over|going back to", line)]
        names = [name for name in files.names() if ".damaged" in name]
        return [f"a whole checkpoint was taken for a damaged one: {said + names}"] if said or names else []

    def check_curve(self, scenario, files, warned, what):
        try:
            lines = [line for line in runs.lines(files.run) if line["kind"] == "train"]
        except (ValueError, KeyError) as e:
            return [f"{what}: metrics.jsonl has a line that is none ({e})"]
        problems, found = [], [line["step"] for line in lines]
        if what != "the run" and found != sorted(set(found)):
            problems.append(f"{what}: metrics.jsonl has the steps {found}")
        lost = any("metrics.jsonl" in w for w in warned)
        # A run that goes back to a checkpoint by name drops lines before its first save, and the next run may
        # go on from a later checkpoint.
        missing = set(range(1, max(found, default=0) + 1)) - set(found) - (set(range(5, 7)) if scenario.name == "replaced" else set())
        if what != "the run" and not lost and missing:
            problems.append(f"{what}: metrics.jsonl lacks steps, and nothing said so: {found}")
        for line in lines:
            if line["state_hash"] != "lost" and (line["loss"], line["grad_norm"], line["state_hash"]) != self.curve[line["step"]]:
                problems.append(f"{what}: off the curve at step {line['step']}")
            elif line["state_hash"] == "lost" and what != "the run":
                problems.append(f"{what}: a line of a lost step is still in metrics.jsonl")
        return problems

    def check_after(self, scenario, files, ended, warned):
        """The checkpoints that are there now, and a start without faults."""
        there, problems = files.steps(), []
        newest = there[-1] if there else 0
        least = scenario.steps if ended.status == 0 else max(scenario.before, default=0)
        if newest < least:
            problems.append(f"the newest checkpoint is of step {newest}, and should be of step {least} or later")
        for step in there:
            if (verified := self.place.verify(files.checkpoint(step))).status != 0:
                problems.append(f"checkpoint of step {step}: {verified.err.strip()}")
        again = self.run(files.command(1, max(newest + 1, 2), "checkpoint.final=false"))
        at = runs.continued(again)
        if again.status != 0:
            problems.append(f"the start after it ended with {again.status}: {runs.errors(again)}")
        elif (at or (0, None)) != ((newest, self.curve[newest][2]) if newest else (0, None)):
            problems.append(f"the start after it went on from {at}, the newest checkpoint is of step {newest}")
        elif again.status == 0:
            problems += self.check_curve(scenario, files, warned, "the start after it")
        return problems
