"""Memory that loading takes beside the run's own: its peak is held against a rank's part of the state and 64 MiB."""
import os, statistics, subprocess, time

from . import runs

# The model has 46 million parameters, and 550 MB of state. The unit with the vocabulary is larger than a
# slab, so that ranks that load other parts than were saved need the most that any can need.
SETS = ("model.dim=512", "model.layers=4", "model.heads=8", "model.ffn=1024", "model.vocab=36864", "data.seq=16", "data.global_batch=8",
        "debug.hash_every=0", "run.steps=2")
BESIDE = 64 << 20


def resident(pid):
    """(resident bytes, whether a shard is open) of a process, None when it has ended."""
    try:
        with open(f"/proc/{pid}/status", encoding="ascii") as file:
            rss = next(int(line.split()[1]) << 10 for line in file if line.startswith("VmRSS"))
        opened = False
        for descriptor in os.listdir(f"/proc/{pid}/fd"):
            try:
                opened = opened or "/shard-" in os.readlink(f"/proc/{pid}/fd/{descriptor}")
            except FileNotFoundError:
                pass
        return rss, opened
    except (OSError, StopIteration):
        return None


class Memory:
    def __init__(self, place, arguments):
        self.place, self.a = place, arguments

    def go(self):
        self.place.trained("saved", 1 if self.a.ranks > 1 else 2, *SETS)
        checkpoint = self.place.path("saved/checkpoints/step-00000002")
        process = subprocess.Popen(runs.train(self.place.path("load"), self.a.ranks, *SETS, "run.steps=3", "checkpoint.final=false",
                                              f"checkpoint.resume={checkpoint}"),
                                   cwd=runs.ROOT, env=self.place.environment, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        before, most = {}, {}
        while process.poll() is None:
            for pid, name in runs.descendants(os.getpid()).items():
                if name != runs.NAME or not (now := resident(pid)):
                    continue
                if now[1]:
                    most[pid] = max(most.get(pid, 0), now[0])
                elif pid not in most:
                    before[pid] = now[0]
            time.sleep(0.0005)
        part = runs.manifest(checkpoint)["state_bytes"] // self.a.ranks
        extra = [most[pid] - before[pid] for pid in most]
        if process.returncode != 0 or len(extra) != self.a.ranks:
            raise SystemExit(f"checkpoints.py memory: the run ended with {process.returncode}, {len(extra)} ranks were seen to load")
        print(f"{self.a.ranks} ranks, a part of {part / 2**20:.0f} MiB each: loading takes {max(extra) / 2**20:.0f} MiB at most (median of ranks "
              f"{statistics.median(extra) / 2**20:.0f}); a part and 64 MiB are {(part + BESIDE) / 2**20:.0f} MiB", flush=True)
        return max(extra) <= part + BESIDE
