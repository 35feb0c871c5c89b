#!/usr/bin/env python3
"""Tests what the trial `faults` of perf/checkpoints.py holds against a run, on runs that are made up here."""
import argparse, errno, json, os, subprocess, sys, tempfile, unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "perf"))
from trials import faults, runs  # noqa: E402
from trials.judge import Judge, must_be_told  # noqa: E402

CURVE = {step: (1 / step, 1.0, f"{step:016x}") for step in range(1, 12)}
TOLD = "weft: warning: step 8: not saved: cannot fsync checkpoints (Input/output error)\n"
RESUMED = next(s for s in faults.SCENARIOS if s.name == "resumed")
NEW = "./runs/a/checkpoints/step-00000008.tmp"
# Of a save that fails and is not told: a call, its number, a file.
LOUD = (("fsync", 2, "./runs/a/checkpoints"), ("fsync", 1, f"{NEW}/shard-00000.h5"), ("fsync", 2, NEW), ("close", 1, f"{NEW}/manifest.json"),
        ("close", 1, f"{NEW}/shard-00000.h5"), ("write", 1, f"{NEW}/manifest.json"), ("pwrite64", 9, f"{NEW}/shard-00000.h5"), ("mkdir", 1, NEW),
        ("rename", 1, NEW), ("rename", 1, "./runs/a/checkpoints/latest.tmp"), ("open+create", 1, f"{NEW}/index.h5"),
        ("openat", 2, f"{NEW}/shard-00000.h5"), ("unlink", 1, "./runs/a/checkpoints/step-00000004.removed.tmp/index.h5"))
SILENT = (("renameat2", 1, NEW), ("close", 2, f"{NEW}/shard-00000.h5"), ("close", 1, NEW), ("close", 3, "./runs/a/checkpoints"),
          ("openat", 1, f"{NEW}/shard-00000.h5"), ("openat", 3, f"{NEW}/shard-00000.h5"), ("sync_file_range", 1, f"{NEW}/shard-00000.h5"),
          ("lseek", 1, f"{NEW}/shard-00000.h5"))


def point(call, number, file, phase="save"):
    return faults.Point("resumed", 1, 0, phase, call, number, file)


def continues(step):
    return f"weft: info: continues from step {step}, state {step:016x}\n"


class MadeUpRun:
    """What a run of the scenario `resumed` leaves: checkpoints of these names, and the lines of ten steps."""

    def __init__(self, names=("step-00000008", "step-00000010")):
        self.names = names

    def judged(self, err, call=LOUD[0], error="EIO", phase="save", came=True, status=0):
        with tempfile.TemporaryDirectory() as path:
            files = faults.Files(path)
            for name in self.names:
                os.makedirs(os.path.join(files.checkpoints, name))
            with open(os.path.join(files.run, "metrics.jsonl"), "w", encoding="ascii") as out:
                for step in range(1, 11):
                    loss, norm, state = CURVE[step]
                    out.write(json.dumps({"kind": "train", "step": step, "loss": loss, "grad_norm": norm, "state_hash": state}) + "\n")
            newest = max(files.steps())
            judge = Judge(self, lambda command: runs.Ended(0, "", continues(newest), 0), CURVE,
                          lambda case: None if case.error == "short" else os.strerror(getattr(errno, case.error)))
            return judge.judge(faults.Case(point(*call, phase), error), RESUMED, files, runs.Ended(status, "", err, 0), came)[0]

    def verify(self, checkpoint):
        return runs.Ended(0, "", "", 0)


class JudgeTest(unittest.TestCase):
    def test_a_save_that_failed_and_was_told_is_right(self):
        self.assertEqual(MadeUpRun().judged(continues(6) + TOLD), [])

    def test_a_swallowed_error_is_a_problem(self):
        for call in LOUD:
            for said in ("", TOLD.replace("Input/output error", "something went wrong")):
                found = MadeUpRun().judged(continues(6) + said, call)
                self.assertEqual(len(found), 1, call)
                self.assertIn("no warning gives the error", found[0])

    def test_what_costs_nothing_need_not_be_told(self):
        for call in SILENT:
            self.assertEqual(MadeUpRun().judged(continues(6), call), [], call)
        self.assertEqual(MadeUpRun().judged(continues(6), LOUD[0], came=False), [])
        self.assertEqual(MadeUpRun().judged(continues(6), ("pwrite64", 1, f"{NEW}/shard-00000.h5"), "short"), [])
        self.assertFalse(must_be_told(point("write", 1, "./runs/a/log.txt", "steps")))

    def test_an_older_checkpoint_is_a_problem(self):
        call = ("pread64", 1, "./runs/a/checkpoints/step-00000006/shard-00000.h5")
        self.assertEqual(MadeUpRun().judged(continues(6), call, phase="resume"), [])
        self.assertIn("not from step 6", MadeUpRun().judged(continues(4), call, phase="resume")[0])
        for said in ("weft: warning: a checkpoint is passed over: step-00000006 is damaged\n",
                     "weft: warning: cannot read step-00000006 (Input/output error); going back to step-00000004\n"):
            for error in ("EIO", "ESTALE", "EACCES"):
                found = MadeUpRun().judged(continues(6) + said, call, error, "resume")
                self.assertEqual(len(found), 1)
                self.assertIn("taken for a damaged one", found[0])

    def test_a_checkpoint_called_damaged_is_a_problem(self):
        found = MadeUpRun(("step-00000006.damaged", "step-00000008", "step-00000010")).judged(continues(6) + TOLD)
        self.assertEqual(len(found), 1)
        self.assertIn("step-00000006.damaged", found[0])


class Trial(faults.Faults):
    """A trial of ten cases in which the call comes in some."""

    def __init__(self, comes):
        names = [s.name for s in faults.SCENARIOS]
        super().__init__(None, argparse.Namespace(seed=1, ranks=[1], sample=None, scenario=names[:1], phase=faults.PHASES, calls=None,
                                                  errors=("EIO",), jobs=1, keep=None))
        self.comes = comes

    def prepare(self):
        pass

    def compare_with_strace(self):
        pass

    def record(self, scenario, ranks, rank):
        return [point("fsync", number, "./runs/a/checkpoints") for number in range(10)]

    def try_case(self, case):
        self.reached += case.point.number < self.comes


class FaultsTest(unittest.TestCase):
    def test_most_calls_must_come(self):
        for comes, good in ((10, True), (8, True), (7, False), (0, False)):
            self.assertEqual(Trial(comes).go(), good, comes)


class ToolsTest(unittest.TestCase):
    def test_what_is_missing_fails_where_all_was_installed(self):
        for tools, status, word in (("", 77, "skipped: there is no /none"), ("all", 1, "FAILED: there is no /none")):
            done = subprocess.run([sys.executable, os.path.join(ROOT, "perf/checkpoints.py"), "faults"], capture_output=True, text=True, check=False,
                                  env={**os.environ, "WEFT_FAULTS": "/none", "WEFT_TEST_TOOLS": tools})
            self.assertEqual(done.returncode, status)
            self.assertIn(word, done.stdout)


if __name__ == "__main__":
    unittest.main()
