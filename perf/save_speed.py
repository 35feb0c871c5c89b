#!/usr/bin/env python3
"""Saving and loading beside PyTorch Distributed Checkpoint and dd, in turn, on one disk: the same model and state, two ranks that train.

  perf/save_speed.py [33m|large ...] [--pairs 5] [--saves 1] [--dir DIR] [--ways sync default cached overlapped process] [--batch B]
                    [--apart STEPS] [--threads 1]

DIR (default: runs) is on the disk to measure. 33m is inputs/bench_33m.toml (403 MB of masters and moments in fp32), large a state of 1.3 GB
under steps of few tokens. Each pair: Weft with saves in the background; Weft with checkpoint.background = false; Weft that starts again
from the newest of these, with the page cache dropped; perf/peers/torch_dcp.py, which explains the ways; and dd with bs=4M and conv=fsync,
a process a rank, from bytes in /dev/shm. Both sides train in fp32 meanwhile, and neither removes older checkpoints. Nothing is kept.

pause: seconds that training waits for a save as the programs count them (of DCP: async_save and waiting for its staging). extra: what all
steps until its end took beyond quiet ones by wall clock, the pause included. write: MB/s of a save's bytes from the first write to the
last fsync: Weft's checksums and DCP's planning and metadata are in it; whole: to the end of the save, of Weft with reading back, and in the
background with waiting for the ends of steps, where ranks meet. Ratios are taken within a pair. WEFT: the program (default:
build/cpu/weft). Other work on the machine spoils the result.
"""
import argparse, glob, json, os, re, shutil, statistics, subprocess, sys, time

from hosts import ROOT, WEFT, peers_python

RANKS = 2
SHAPES = {  # the last two numbers: steps from one save to the next, in the background and not
    "33m": (dict(dim=512, layers=8, heads=8, kv_heads=4, ffn=1536, vocab=8192, seq=512, batch=4), 9, 4),
    "large": (dict(dim=1024, layers=8, heads=16, kv_heads=8, ffn=2816, vocab=8192, seq=128, batch=1), 16, 6),
}
SKIP = 2  # how many first steps do not count


def environment():
    return {**os.environ, "OMP_NUM_THREADS": str(a.threads), "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def fail(command, done):
    sys.exit(f"save_speed.py: {' '.join(command)} ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def weft_command(shape, run, steps, sets):
    values = [f"model.{k}={shape[k]}" for k in ("dim", "layers", "heads", "kv_heads", "ffn", "vocab")]
    values += [f"data.seq={shape['seq']}", f"data.batch={shape['batch']}", f"data.global_batch={shape['batch'] * RANKS}", f"run.steps={steps}",
               f"run.dir={run}", "precision.params=f32", "log.progress=false", "checkpoint.keep=1000", *sets]
    return ["mpirun", "-n", str(RANKS), "--map-by", f"slot:PE={a.threads}", WEFT, "train", "inputs/bench_33m.toml",
            *(x for v in values for x in ("--set", v))]


def lines_as_they_come(command, path):
    """[(seconds, line of metrics.jsonl)] of a run."""
    process = subprocess.Popen(command, cwd=ROOT, env=environment(), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               stdin=subprocess.DEVNULL)
    rows, text, at, over = [], "", 0, False
    while not over:
        over = process.poll() is not None
        time.sleep(0.002)
        if os.path.exists(path):
            with open(path) as file:
                file.seek(at)
                text += file.read()
                at = file.tell()
            *whole, text = text.split("\n")
            rows += [(time.monotonic(), json.loads(line)) for line in whole]
    said = process.stdout.read()
    if process.returncode != 0:
        sys.exit(f"save_speed.py: {' '.join(command)} ended with {process.returncode}:\n{said[-4000:]}")
    return rows


def run_weft(shape, run, every, background):
    """A row of seconds and bytes for each save; and the median quiet step."""
    steps = every * (a.saves + 1) - 1
    sets = [f"checkpoint.every={every}", f"checkpoint.background={'true' if background else 'false'}"]
    rows = lines_as_they_come(weft_command(shape, run, steps, sets), f"{run}/metrics.jsonl")
    at = {r["step"]: t for t, r in rows if r["kind"] == "train"}
    saves = [(t, r) for t, r in rows if r["kind"] == "save"]
    under, windows = set(), []
    for end, save in saves:
        first = save["step"]
        # The step of the first line after the save's end.
        last = next((s for s in sorted(at) if s > first and at[s] > end), steps)
        windows.append((first, last, {s for s in range(first + 1, last + 1) if at[s] <= end}))
        under |= set(range(first + 1, last + 1))
    intervals = {s: at[s] - at[s - 1] for s in at if s - 1 in at and s > SKIP}
    quiet = statistics.median(intervals[s] for s in intervals if s not in under)
    out = []
    for (first, last, whole), (_, save) in zip(windows, saves):
        slow = statistics.median(intervals[s] for s in whole) / quiet if whole else float("nan")
        out.append({**save, "slow": slow, "steps": len(whole), "extra_s": at[last] - at[first] - (last - first) * quiet})
    return out, quiet


def drop_from_cache(folder):
    for name in glob.glob(f"{folder}/**", recursive=True):
        if os.path.isfile(name):
            descriptor = os.open(name, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


def load_weft(shape, run):
    """Seconds that a run takes to read the newest checkpoint."""
    newest = os.path.realpath(f"{run}/checkpoints/latest")
    drop_from_cache(newest)
    step = int(newest.rsplit("-", 1)[1])
    lines_as_they_come(weft_command(shape, run, step + 1, ["checkpoint.resume=auto", "checkpoint.final=false"]), f"{run}/none")
    with open(f"{run}/log.txt") as file:
        return float(re.findall(rf"continues from step {step}, read in ([0-9.]+) s", file.read())[-1])


def run_dcp(shape, folder):
    command = [python, "-m", "torch.distributed.run", "--nproc-per-node", str(RANKS), "perf/peers/torch_dcp.py", "--dir", folder, "--saves",
               str(a.saves), "--threads", str(a.threads), "--ways", *a.ways, *(x for k, v in shape.items() for x in ("--" + k, str(v)))]
    done = subprocess.run(command, cwd=ROOT, env=environment(), text=True, capture_output=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        fail(command, done)
    return json.loads(done.stdout.strip().splitlines()[-1])


def run_dd(size, folder):
    """MB/s of dd, over the processes of all ranks."""
    source = f"/dev/shm/weft_save_speed_{os.getpid()}"
    try:
        with open(source, "wb") as file:
            for _ in range(-(-size // RANKS // 2**24)):
                file.write(os.urandom(2**24))
        os.makedirs(folder)
        begin = time.monotonic()
        jobs = [subprocess.Popen(["dd", f"if={source}", f"of={folder}/{r}", "bs=4M", f"count={size // RANKS}", "iflag=count_bytes,fullblock",
                                  "conv=fsync", "status=none"]) for r in range(RANKS)]
        if any([job.wait() for job in jobs]):
            sys.exit("save_speed.py: dd failed")
        return size / 1e6 / (time.monotonic() - begin)
    finally:
        os.unlink(source)


def settle():
    """Waits until the disk has what was written so far, and is done with what was removed."""
    os.sync()
    time.sleep(1)


def median(rows, name):
    return statistics.median(r[name] for r in rows)


def state_bytes(run):
    """The bytes of the newest checkpoint, without the holes that align datasets."""
    with open(f"{run}/checkpoints/latest/manifest.json") as file:
        return json.load(file)["state_bytes"]


def side_of_weft(rows, step, size):
    return {"pause_s": median(rows, "pause_s"), "share": median(rows, "pause_s") / step, "extra_s": median(rows, "extra_s"),
            "slow": median(rows, "slow"), "write": size / 1e6 / median(rows, "write_s"), "whole": size / 1e6 / median(rows, "seconds"),
            "verify_s": median(rows, "verify_s")}


def side_of_dcp(way, rows, step, size):
    return {"pause_s": median(rows, "stage_s"), "share": median(rows, "stage_s") / step, "extra_s": median(rows, "extra_s"),
            "slow": median(rows, "slow"), "write": size / 1e6 / median(rows, "write_s"),
            "whole": size / 1e6 / statistics.median(r["write_s"] + (r["stage_s"] if way != "sync" else 0) for r in rows), "state_s": median(rows, "state_s")}


def pair(name):
    """{side: {measure: value}} of one turn."""
    shape, apart, near = SHAPES[name]
    shape, apart = shape | ({"batch": a.batch} if a.batch else {}), a.apart or apart
    folder = os.path.join(a.dir, f"save_speed-{os.getpid()}")
    out = {}
    try:
        settle()
        rows, step = run_weft(shape, f"{folder}/weft", apart, True)
        size = state_bytes(f"{folder}/weft")
        out["weft"] = side_of_weft(rows, step, size) | {"step_s": step}
        settle()
        rows, step = run_weft(shape, f"{folder}/weft_sync", near, False)
        out["weft sync"] = side_of_weft(rows, step, size)
        settle()
        out["weft"]["load_s"] = load_weft(shape, f"{folder}/weft_sync")
        shutil.rmtree(f"{folder}/weft")
        shutil.rmtree(f"{folder}/weft_sync")
        settle()
        report = run_dcp(shape, f"{folder}/dcp")
        for way, rows in report["ways"].items():
            out[f"dcp {way}"] = side_of_dcp(way, rows, report["step_s"], report["bytes"])
        out[f"dcp {a.ways[0]}"] |= {"step_s": report["step_s"], "load_s": report["load_s"]}
        settle()
        out["dd"] = {"write": run_dd(size, f"{folder}/dd")}
        out["size"] = {"weft": size, "dcp": report["bytes"]}
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return out


def show(values, digits):
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} .. {max(values):.{digits}f})"


def ratio(pairs, name, measure, to, digits=2):
    print(f"  {measure:8s} {name:10s} / {to:15s} {show([p[name][measure] / p[to][measure] for p in pairs], digits)}")


def print_all(shape, pairs):
    sizes = pairs[0].pop("size")
    print(f"{shape}: {len(pairs)} pairs of {a.saves} saves, {sizes['weft'] / 1e6:.0f} MB (DCP {sizes['dcp'] / 1e6:.0f}), {RANKS} ranks of {a.threads}")
    units = [("step_s", "s", 3), ("pause_s", "s", 4), ("share", "of a step", 3), ("extra_s", "s", 2), ("slow", "x a step", 2), ("write", "MB/s", 0),
             ("whole", "MB/s", 0), ("verify_s", "s", 2), ("state_s", "s", 4), ("load_s", "s", 3)]
    for side in pairs[0]:
        if side != "size":
            print(f"  {side:15s} " + "; ".join(f"{m.removesuffix('_s')} {show([p[side][m] for p in pairs], d)} {u}" for m, u, d in units if m in pairs[0][side]))
    staged = [f"dcp {w}" for w in a.ways if w != "sync"]
    for way in staged:
        ratio(pairs, "weft", "pause_s", way, 3)
    for way in staged:
        ratio(pairs, "weft", "extra_s", way)
    for way in staged:
        ratio(pairs, "weft", "write", way)
    for to in (["dcp sync"] if "sync" in a.ways else []) + ["dd"]:
        ratio(pairs, "weft sync", "write", to)
        ratio(pairs, "weft sync", "whole", to) if to != "dd" else None
    ratio(pairs, "weft", "load_s", f"dcp {a.ways[0]}")
    sys.stdout.flush()


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("shapes", nargs="*", metavar="SHAPE", help="33m, large (both without a name)")
parser.add_argument("--pairs", type=int, default=5)
parser.add_argument("--saves", type=int, default=1, help="of each kind in a pair")
parser.add_argument("--dir", default=os.path.join(ROOT, "runs"))
parser.add_argument("--ways", nargs="+", default=["sync", "default", "cached", "overlapped"])
parser.add_argument("--batch", type=int, help="sequences a rank, instead of the shape's")
parser.add_argument("--apart", type=int, help="steps from one save to the next in the background, instead of the shape's")
parser.add_argument("--threads", type=int, default=1)
a = parser.parse_args()
if unknown := set(a.shapes) - set(SHAPES):
    parser.error(f"no shape {', '.join(sorted(unknown))}")
python = peers_python()
for shape in a.shapes or SHAPES:
    done = []
    for _ in range(a.pairs):
        done.append(pair(shape))
        print(json.dumps({"shape": shape, **done[-1]}), file=sys.stderr, flush=True)
    print_all(shape, done)
