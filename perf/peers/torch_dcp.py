"""Saves a Llama's training state with PyTorch Distributed Checkpoint while it trains under FSDP2 (gloo, fp32, fused AdamW), loads it
again, and prints one JSON line: a peer for perf/save_speed.py.

    torchrun --nproc-per-node 2 torch_dcp.py --dir DIR --ways sync default cached overlapped process

Ways: `sync` is dcp.save. The others are dcp.async_save on a process group of its own: `default` with the stager that it makes for itself;
`cached` with a DefaultStager that keeps its buffers; `overlapped` the same with use_async_staging, waited for before the optimizer's step;
`process` with a DefaultStager that keeps shared memory, and a process of its own that writes. FileSystemWriter fsyncs each file
(sync_files is its default). A stager that keeps buffers saves once before it is measured.

Of each save, the slowest rank's seconds: `state_s` in get_state_dict, `stage_s` that async_save and waiting for staging block training,
`write_s` from there until the future is done (sync: all of dcp.save), `extra_s` what the steps until its end took more than quiet ones, and
`slow` how much longer a step under it is. `load_s`: dcp.load after the page cache was dropped."""
import argparse
import glob
import json
import os
import shutil
import statistics
import time
import warnings

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.nn.functional as F
from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions
from torch.distributed.checkpoint.state_dict import get_state_dict
from torch.distributed.checkpoint.state_dict_saver import AsyncCheckpointerType, AsyncSaveResponse

from llama import Llama, Shape
from torch_llama import with_fsdp2

STAGING = {"cached": (False, False, False, False), "overlapped": (False, False, True, False), "process": (False, True, False, False)}


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--dir", required=True, help="on the disk that is to be measured")
    p.add_argument("--ways", nargs="+", default=["sync", "default", *STAGING], choices=("sync", "default", *STAGING))
    p.add_argument("--saves", type=int, default=1, help="measured, of each way")
    p.add_argument("--quiet", type=int, default=3, help="steps without a save, after two that do not count")
    p.add_argument("--batch", type=int, default=4, help="sequences a rank")
    p.add_argument("--threads", type=int, default=1)
    for name in ("dim", "layers", "heads", "kv_heads", "ffn", "vocab", "seq"):
        p.add_argument("--" + name, type=int, default=getattr(Shape, name))
    return p.parse_args()


def everywhere(done):
    """Whether all ranks are done; all call it."""
    flag = torch.tensor([1 if done else 0])
    dist.all_reduce(flag, dist.ReduceOp.MIN)
    return bool(flag.item())


def slowest(values):
    """The maximum over ranks of {name: seconds}; all call it."""
    names = sorted(values)
    worst = torch.tensor([values[n] for n in names], dtype=torch.float64)
    dist.all_reduce(worst, dist.ReduceOp.MAX)
    return dict(zip(names, worst.tolist()))


class Training:
    def __init__(self, a):
        self.a, self.rank = a, dist.get_rank()
        self.model = with_fsdp2(Llama(Shape(**{k: getattr(a, k) for k in ("dim", "layers", "heads", "kv_heads", "ffn", "vocab", "seq")})),
                                False, torch.float32, True)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
        self.generator = torch.Generator().manual_seed(1234 + self.rank)

    def step(self, before_update=lambda: None):
        """Does one step, and returns its seconds."""
        start = time.perf_counter()
        x = torch.randint(0, self.a.vocab, (self.a.batch, self.a.seq + 1), generator=self.generator)
        loss = F.cross_entropy(self.model(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        before_update()
        self.optimizer.step()
        self.optimizer.zero_grad()
        loss.item()
        return time.perf_counter() - start

    def state(self):
        model, optimizer = get_state_dict(self.model, self.optimizer)
        return {"model": model, "optim": optimizer}


class Save:
    """An asynchronous save that is under way."""

    def __init__(self, training, way, path, group, stager):
        begin = time.perf_counter()
        state = training.state()
        staging = time.perf_counter()
        kind = AsyncCheckpointerType.PROCESS if way == "process" else AsyncCheckpointerType.THREAD
        response = dcp.async_save(state, checkpoint_id=path, process_group=group, async_checkpointer_type=kind, async_stager=stager)
        self.staged = response.staging_completion if isinstance(response, AsyncSaveResponse) else None
        self.written = response.upload_completion if isinstance(response, AsyncSaveResponse) else response
        self.seconds = {"state_s": staging - begin, "stage_s": time.perf_counter() - staging}
        self.writing = time.perf_counter()
        self.written.add_done_callback(lambda _: self.seconds.update(write_s=time.perf_counter() - self.writing))

    def wait_for_staging(self):
        begin = time.perf_counter()
        if self.staged is not None:
            self.staged.result()
            self.staged = None
        self.seconds["stage_s"] += time.perf_counter() - begin

    def done(self):
        return everywhere(self.written.done() and "write_s" in self.seconds)


def save_synchronously(training, path, quiet):
    begin = time.perf_counter()
    state = training.state()
    writing = time.perf_counter()
    dcp.save(state, checkpoint_id=path)
    end = time.perf_counter()
    return slowest({"state_s": writing - begin, "stage_s": end - writing, "write_s": end - writing, "extra_s": end - begin, "slow": 1})


def save_while_training(training, way, path, quiet, group, stager):
    begin = time.perf_counter()
    save = Save(training, way, path, group, stager)
    steps = [training.step(save.wait_for_staging)]
    while not save.done():
        steps.append(training.step())
    extra = time.perf_counter() - begin - len(steps) * quiet
    save.written.result()
    return slowest({**save.seconds, "extra_s": extra, "slow": statistics.median(steps) / quiet})


def measure(training, way, quiet, group):
    stager = DefaultStager(StagingOptions(*STAGING[way])) if way in STAGING else None
    rows = []
    for i in range(training.a.saves + (stager is not None)):
        path = os.path.join(training.a.dir, f"{way}-{i}")
        if stager is not None and i == 0:
            Save(training, way, path, group, stager).written.result()
            dist.barrier()
            continue
        rows.append(save_synchronously(training, path, quiet) if way == "sync" else
                    save_while_training(training, way, path, quiet, group, stager))
        training.step()
    if stager is not None:
        stager.close()
    return rows


def files_of(path):
    return [f for f in glob.glob(os.path.join(path, "**"), recursive=True, include_hidden=True) if os.path.isfile(f)]


def load(training, path):
    dist.barrier()
    for name in files_of(path):
        descriptor = os.open(name, os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)
    state = training.state()
    dist.barrier()
    begin = time.perf_counter()
    dcp.load(state, checkpoint_id=path)
    return slowest({"load_s": time.perf_counter() - begin})["load_s"]


def main():
    warnings.filterwarnings("ignore")
    a = arguments()
    torch.set_num_threads(a.threads)
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    training, group = Training(a), dist.new_group(backend="gloo")
    quiet = statistics.median([training.step() for _ in range(2 + a.quiet)][2:])
    quiet = slowest({"step_s": quiet})["step_s"]
    report = {"step_s": quiet, "ways": {way: measure(training, way, quiet, group) for way in a.ways}}
    last = os.path.join(a.dir, f"{a.ways[0]}-0")
    report["load_s"] = load(training, last)
    if training.rank == 0:
        report["bytes"] = sum(os.path.getsize(f) for f in files_of(last))
        shutil.rmtree(a.dir)
        print(json.dumps(report), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
