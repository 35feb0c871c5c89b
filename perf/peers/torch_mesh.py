"""Trains the model of a Weft run in PyTorch over a mesh of ranks, in fp32: same initial weights, tokens and schedule. Shows that both agree.

    torchrun --nproc-per-node 4 torch_mesh.py train RUN/checkpoints/step-00000000 --data 2 --tensor 2
    python torch_mesh.py check [--binary build/cpu/weft] [--keep DIR]

train prints a JSON line a step. Axes, the outermost first: pipe (1F1B, microbatches of data.batch sequences), data (FSDP2), tensor (the plan of
torch_llama.py, with sequence and loss parallelism). check trains a small model with Weft on each of MESHES and then here, from the checkpoint
of step 0 that Weft's run wrote. It prints how far Weft is from PyTorch: the largest relative difference of a loss over all steps, that of the
first gradient norm, that of a gradient norm over all steps, and the largest distance of a parameter's first gradient over the gradient's norm
(both optimizers' first moment after one step is the clipped gradient times 1 - beta1). It fails when any but the third is above 1e-5: after the
first step the two sides have other weights, and AdamW moves a weight with a tiny gradient as far as one with a large gradient."""
import argparse
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from contextlib import nullcontext

import torch
import torch.distributed as dist
import torch.nn.functional as F

from llama import Llama, weft_path
from quickstart_torch import learning_rate, sequence
from torch_llama import Stage, clip, cut_tensors, with_fsdp2
from weft_files import first_moments, load_weights, one_file, open_checkpoint, shape_of

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "perf"))
from distances import largest, relative  # noqa: E402

MESHES = (dict(tensor=4), dict(pipe=4), dict(data=2, tensor=2), dict(pipe=2, tensor=2), dict(pipe=2, data=2))
TOLERANCE = 1e-5
DECK = """
[run]
name = "mesh"
steps = 10
[model]  # 260 ids are the byte tokenizer's 257, and a multiple of four ranks
dim = 64
layers = 4
heads = 8
kv_heads = 4
ffn = 160
vocab = 260
[data]
train = "{folder}/text.bin"
seq = 32
batch = 2
global_batch = 8
[optimizer]
lr = 1e-2
warmup = 2
[checkpoint]
initial = true
final = false
every = 1
keep = 20
[log]
progress = false
tensorboard = false
"""


class Mesh:
    """One rank's part of the model and of the batch."""

    def __init__(self, deck, weights, a):
        from torch.distributed.device_mesh import init_device_mesh
        mesh = init_device_mesh("cpu", (a.pipe, a.data, a.tensor), mesh_dim_names=("pipe", "data", "tensor"))
        self.deck, self.data, self.tokens = deck, deck["data"], one_file(deck["data"]["train"], "data.train")
        self.rows, self.part = self.data["global_batch"] // a.data, mesh["data"].get_local_rank()
        self.pipe, self.stage, self.stages = mesh["pipe"].get_group(), mesh["pipe"].get_local_rank(), a.pipe
        self.replicas = a.data * a.tensor  # ranks that know the same part of the loss count once for each
        self.first_of_stage = self.part == 0 and mesh["tensor"].get_local_rank() == 0
        self.loss_parallel = a.tensor > 1
        self.model = Llama(shape_of(deck))
        self.first_layer = self.stage * -(-len(self.model.layers) // a.pipe)
        load_weights(self.model, weights)
        if a.pipe > 1:
            self.model = Stage(self.model, self.stage, a.pipe)
        if a.tensor > 1:
            cut_tensors(self.model, mesh["tensor"])
        if a.data > 1:
            with_fsdp2(self.model, False, torch.float32, True, mesh["data"])
        if a.pipe > 1:
            from torch.distributed.pipelining import PipelineStage, Schedule1F1B
            stage = PipelineStage(self.model, self.stage, a.pipe, torch.device("cpu"), group=self.pipe)
            self.schedule = Schedule1F1B(stage, self.rows // self.data["batch"], loss_fn=self.loss)

    @staticmethod
    def loss(logits, targets):
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())

    def sequences(self, step):
        """What this rank's part of the data axis computes in a step."""
        seq, first = self.data["seq"], step * self.data["global_batch"] + self.part * self.rows
        n = self.tokens.windows(seq)
        return torch.stack([self.tokens.window(sequence(self.deck["run"]["seed"], n, first + r), seq) for r in range(self.rows)])

    def backward(self, step):
        """Gradients of a step; gives the mean loss of its tokens, the same on all ranks."""
        from torch.distributed.tensor.parallel import loss_parallel
        x = self.sequences(step)
        inputs, targets, losses = x[:, :-1].contiguous(), x[:, 1:].contiguous(), []
        with loss_parallel() if self.loss_parallel else nullcontext():
            if self.stages == 1:
                losses.append(self.loss(self.model(inputs), targets))
                losses[0].backward()
            elif self.stage == self.stages - 1:
                self.schedule.step(target=targets, losses=losses)
            else:
                self.schedule.step(*[inputs] if self.stage == 0 else [])
        mean = torch.tensor(sum(loss.item() for loss in losses) / max(1, len(losses)), dtype=torch.float64)
        dist.all_reduce(mean)
        return mean.item() / self.replicas


    def save_first_moments(self, optimizer, folder):
        """Writes those of this rank's stage, whole, to a file of the folder. All ranks of a stage call."""
        moments = {}
        for name, parameter in self.model.named_parameters():
            name = re.sub(r"^layers\.(\d+)", lambda layer: f"layers.{int(layer[1]) + self.first_layer}", name)
            value = optimizer.state[parameter]["exp_avg"]
            moments[weft_path(name)] = value.full_tensor() if hasattr(value, "full_tensor") else value
        if self.first_of_stage:
            torch.save(moments, pathlib.Path(folder, f"stage{self.stage}.pt"))


def train(a):
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    deck, weights, step = open_checkpoint(a.checkpoint)
    if step != 0:
        raise SystemExit(f"{a.checkpoint} is of step {step}; this peer starts from step 0, without moments")
    if deck["model"]["tie_embeddings"]:
        raise SystemExit(f"{a.checkpoint} ties embedding and head; the plan of this peer does not")
    mesh, o = Mesh(deck, weights, a), deck["optimizer"]
    parameters = list(mesh.model.parameters())
    optimizer = torch.optim.AdamW(parameters, lr=o["lr"], betas=(o["beta1"], o["beta2"]), eps=o["eps"], weight_decay=o["weight_decay"], fused=True)
    for s in range(min(a.steps, deck["run"]["steps"])):
        loss = mesh.backward(s)
        norm = clip(parameters, o["clip"] or math.inf, mesh.pipe).item()
        optimizer.param_groups[0]["lr"] = learning_rate(o, deck["run"]["steps"], s)
        optimizer.step()
        if s == 0 and a.moments:
            mesh.save_first_moments(optimizer, a.moments)
        optimizer.zero_grad()
        if dist.get_rank() == 0:
            print(json.dumps(dict(kind="train", step=s + 1, loss=loss, grad_norm=norm)), flush=True)
    dist.destroy_process_group()


def run(command):
    """Its lines of JSON that tell of a step."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OMP_PROC_BIND": "false", "OMPI_ALLOW_RUN_AS_ROOT": "1",
                   "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_hwloc_base_binding_policy": "none"}
    done = subprocess.run(command, cwd=ROOT, env=environment, text=True, capture_output=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        sys.exit(f"torch_mesh.py: {' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return steps_of(done.stdout)


def steps_of(text):
    return [r for r in (json.loads(line) for line in text.splitlines() if line.startswith("{")) if r["kind"] == "train"]


def distances_of_gradients(checkpoint, folder):
    """The distance of each parameter's first gradient from PyTorch's, over the norm of that."""
    own, peer = first_moments(checkpoint), {}
    for file in folder.glob("stage*.pt"):
        peer |= torch.load(file)
    if own.keys() != peer.keys():
        sys.exit(f"torch_mesh.py: only one side has gradients of {sorted(own.keys() ^ peer.keys())}")
    return [((own[name] - peer[name]).double().norm() / peer[name].double().norm()).item() for name in own]


def check_mesh(mesh, binary, folder):
    """Trains on one mesh in both; prints how far they are apart, and gives the largest of what is bounded, NaN if one is."""
    name, ranks = "-".join(f"{axis}{n}" for axis, n in mesh.items()), str(math.prod(mesh.values()))
    text = "{ " + ", ".join(f"{axis} = {n}" for axis, n in mesh.items()) + " }"
    run(["mpirun", "-n", ranks, binary, "train", f"{folder}/deck.toml", "--set", f"parallel.mesh={text}", "--set", f"run.dir={folder}/{name}"])
    weft = steps_of(pathlib.Path(folder, name, "metrics.jsonl").read_text())
    checkpoints, moments = folder / name / "checkpoints", folder / name / "moments"
    moments.mkdir()
    peer = run([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", ranks, __file__, "train",
                checkpoints / "step-00000000", "--moments", moments, *(x for axis, n in mesh.items() for x in ("--" + axis, str(n)))])
    if len(weft) != 10 or [r["step"] for r in weft] != [r["step"] for r in peer]:
        sys.exit(f"torch_mesh.py: {text}: {len(weft)} steps of Weft and {len(peer)} of PyTorch, not ten each")
    losses, norms = ([relative(w[key], p[key]) for w, p in zip(weft, peer)] for key in ("loss", "grad_norm"))
    gradients = largest(distances_of_gradients(checkpoints / "step-00000001", moments))
    print(f"{text:26s} loss {weft[0]['loss']:.6f} to {weft[-1]['loss']:.6f}; relative differences from PyTorch: "
          f"losses {largest(losses):.1e}, first norm {norms[0]:.1e}, any norm {largest(norms):.1e}, first gradients {gradients:.1e}",
          flush=True)
    return largest([*losses, norms[0], gradients])


def check(a):
    with nullcontext(a.keep) if a.keep else tempfile.TemporaryDirectory() as folder:
        folder, binary = pathlib.Path(folder).resolve(), str(pathlib.Path(a.binary).resolve())
        folder.mkdir(exist_ok=True)
        run([binary, "data", "tokenize", "docs/deck.md", "--tokenizer", "byte", "--train", folder / "text.bin"])
        (folder / "deck.toml").write_text(DECK.format(folder=folder))
        worst = largest([check_mesh(mesh, binary, folder) for mesh in MESHES])
    if not worst <= TOLERANCE:
        sys.exit(f"torch_mesh.py: a difference of {worst:.1e}, more than {TOLERANCE:.0e}")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = p.add_subparsers(required=True, metavar="train|check")
    t = commands.add_parser("train", help="under torchrun, with pipe * data * tensor ranks")
    t.add_argument("checkpoint", help="directory of Weft's checkpoint of step 0")
    for axis in ("pipe", "data", "tensor"):
        t.add_argument("--" + axis, type=int, default=1)
    t.add_argument("--steps", type=int, default=10)
    t.add_argument("--moments", help="a directory for the first moments after the first step")
    t.set_defaults(call=train)
    c = commands.add_parser("check", help="Weft and PyTorch on several meshes")
    c.add_argument("--binary", default="build/cpu/weft")
    c.add_argument("--keep", help="a new directory for the runs, which stay")
    c.set_defaults(call=check)
    a = p.parse_args()
    a.call(a)


if __name__ == "__main__":
    main()
