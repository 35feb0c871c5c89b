"""Trains a small Llama in Float8 in Weft and with torchao, from the same initial weights on the same tokens, and says how far each is from fp32.

    python torch_float8.py [--binary build/cpu/weft] [--draws 12] [--steps 30] [--scales rowwise] [--keep DIR]

Both make the products of all layers but the first and the last in Float8, and the gradients of weights in bf16. Weft: precision.float8 =
["layers.*"]. torchao: its recipe rowwise_with_gw_hp, emulated, so that it runs without a GPU. With --scales tensorwise both have one scale for
all rows, and torchao the gradients of weights in bf16 nevertheless.

PyTorch trains in two ways. "bf16 weights" is what torchtitan does, and what Weft does with precision.norms = "bf16" (by default it leaves the
weights of norms in fp32): FSDP2, here on one rank, casts the fp32 masters to bf16 for forward and backward, so that weights, activations and the
residual stream are bf16; gradients return to fp32, where they are summed and given to AdamW. torchao then quantises a weight from the bf16 that
FSDP2 gathered, torchtitan's only way with scales for rows; Weft quantises the fp32 master. "autocast" keeps weights and the residual stream in fp32, and casts to bf16 for products only: more digits than a like-for-like
peer has. A third way, fp32 but for weights of norms, which are rounded to bf16, shows how much of the distance those make.

For each draw of weights and tokens it prints how far Float8, and bf16 alone, are from the same program's run in fp32: the distance of the first
gradients over their norm, and the largest relative distance of a loss and of a gradient norm over all steps; then the medians of the draws, because
now and then a draw leaves its course in every program, and is ten times as far.
It fails when a median of Weft's is more than a factor (LIMITS) of a peer's. With norms in bf16, like for like with bf16 weights: 1.05 for the first
gradients in Float8, 1.25 for losses in Float8, 1.05 for losses in bf16. By default: 1.05 for the first gradients, 1.25 for losses in Float8 and 1.5
for losses in bf16 beside autocast, which also keeps the residual stream in fp32; and losses nearer than those of bf16 weights, 0.8 times as far in
Float8 and 0.3 in bf16. Fewer draws can miss a limit by chance."""
import argparse
import json
import pathlib
import statistics
import sys
import tempfile
from contextlib import nullcontext
from dataclasses import dataclass

import torch
import torch.distributed as dist
import torch.nn.functional as F

from quickstart_torch import Run
from torch_mesh import largest, relative, run
from llama import RMSNorm, weft_path
from torch_llama import with_fsdp2
from weft_files import first_moments, open_checkpoint

DECK = """
[run]
name = "float8"
seed = {seed}
steps = {steps}
[model]
dim = 128
layers = 6
heads = 4
kv_heads = 2
ffn = 352
vocab = 260
[data]
train = "{folder}/text.bin"
seq = 64
batch = 4
global_batch = 8
[optimizer]
lr = 2e-4
warmup = 4
[checkpoint]
initial = true
final = false
[log]
progress = false
tensorboard = false
"""


@dataclass(frozen=True)
class Numbers:
    """What a peer computes in. Its parameters are fp32: FSDP2 makes bf16 weights of them, or autocast casts them for each product, or neither."""
    float8: bool = False
    bf16_weights: bool = False
    autocast: bool = False
    bf16_norms: bool = False  # fp32 all over, but for weights of norms


FP32, PEER_FP32 = "Weft, fp32", "PyTorch, fp32"
FLOAT8, PEER_FLOAT8, AUTOCAST_FLOAT8 = "Weft, Float8", "torchao, Float8, bf16 weights", "torchao, Float8, autocast"
BF16, PEER_BF16, AUTOCAST_BF16 = "Weft, bf16", "PyTorch, bf16 weights", "PyTorch, bf16 autocast"
LIKE_FLOAT8, LIKE_BF16 = "Weft, Float8, norms bf16", "Weft, bf16, norms bf16"  # like for like with bf16 weights
NORMS = "PyTorch, fp32, norms' weights bf16"
IN_BF16 = ("--set", "precision.params=bf16")
IN_FLOAT8 = (*IN_BF16, "--set", 'precision.float8=["layers.*"]')
ROUNDED_NORMS = ("--set", "precision.norms=bf16")
WEFT = {FP32: (), FLOAT8: IN_FLOAT8, BF16: IN_BF16, LIKE_FLOAT8: IN_FLOAT8 + ROUNDED_NORMS, LIKE_BF16: IN_BF16 + ROUNDED_NORMS}  # with settings
PEERS = {PEER_FP32: Numbers(), PEER_FLOAT8: Numbers(float8=True, bf16_weights=True), AUTOCAST_FLOAT8: Numbers(float8=True, autocast=True),
         PEER_BF16: Numbers(bf16_weights=True), AUTOCAST_BF16: Numbers(autocast=True), NORMS: Numbers(bf16_norms=True)}
ROWS = (FLOAT8, LIKE_FLOAT8, PEER_FLOAT8, AUTOCAST_FLOAT8, BF16, LIKE_BF16, PEER_BF16, AUTOCAST_BF16, NORMS)
COLUMNS = ("first gradients", "loss", "gradient norm")
LIMITS = ((LIKE_FLOAT8, PEER_FLOAT8, "first gradients", 1.05), (LIKE_FLOAT8, PEER_FLOAT8, "loss", 1.25), (LIKE_BF16, PEER_BF16, "loss", 1.05),
          (FLOAT8, AUTOCAST_FLOAT8, "first gradients", 1.05), (FLOAT8, AUTOCAST_FLOAT8, "loss", 1.25), (BF16, AUTOCAST_BF16, "loss", 1.5),
          (FLOAT8, PEER_FLOAT8, "loss", 0.8), (BF16, PEER_BF16, "loss", 0.3))  # Weft's median is at most so many times the peer's


def curve(records):
    return [(r["loss"], r["grad_norm"]) for r in records if r["kind"] == "train"]


def weft(a, deck, folder, *sets):
    run([a.binary, "train", deck, "--set", f"run.dir={folder}", *sets])
    return curve(json.loads(line) for line in pathlib.Path(folder, "metrics.jsonl").read_text().splitlines())


def in_float8(model, layers, scales):
    from torchao.float8 import Float8LinearConfig, convert_to_float8_training
    from torchao.float8.config import ScalingGranularity
    config = Float8LinearConfig.from_recipe_name("rowwise_with_gw_hp")
    if scales == "tensorwise":
        for operand in ("input", "weight", "grad_output"):
            object.__setattr__(getattr(config, f"cast_config_{operand}"), "scaling_granularity", ScalingGranularity.TENSORWISE)
    object.__setattr__(config, "emulate", True)
    inner = {f"layers.{i}." for i in range(1, layers - 1)}
    chosen = []

    def wanted(module, name):
        found = isinstance(module, torch.nn.Linear) and any(name.startswith(layer) for layer in inner)
        chosen.extend([name] if found else [])
        return found

    convert_to_float8_training(model, config=config, module_filter_fn=wanted)
    if len(chosen) != 7 * len(inner):
        raise SystemExit(f"torch_float8.py: torchao converted {len(chosen)} of {7 * len(inner)} products: {chosen}")
    return [model.get_submodule(name) for name in chosen]


def round_norms(model):
    for norm in (m for m in model.modules() if isinstance(m, RMSNorm)):
        norm.forward = lambda x, n=norm: F.rms_norm(x, (x.shape[-1],), n.weight.bfloat16().float(), n.eps)


def check_types(module, expected):
    """Has each forward of a feed-forward look at the types of the residual stream and of a weight as they are at that time."""
    def check(_module, x):
        found = x[0].dtype, module.w2.weight.dtype
        if found != (expected, expected):
            raise SystemExit(f"torch_float8.py: the residual stream and the weights of a peer are {found[0]} and {found[1]}, not {expected}")

    module.register_forward_pre_hook(check)


def peer(a, checkpoint, numbers, clip):
    deck, weights, _ = open_checkpoint(checkpoint)
    if not clip:
        deck["optimizer"]["clip"] = 0

    def prepare(model):
        products = in_float8(model, deck["model"]["layers"], a.scales) if numbers.float8 else []
        if numbers.autocast:  # torchao looks for autocast on a GPU only
            for product in products:
                product.register_forward_pre_hook(lambda _module, x: (x[0].bfloat16(),))
        if numbers.bf16_weights:
            with_fsdp2(model, low_precision=True, wire=torch.float32, reshard=False)
        if numbers.bf16_norms:
            round_norms(model)
        for layer in model.layers:
            check_types(layer.ffn, torch.bfloat16 if numbers.bf16_weights else torch.float32)

    return Run(deck, weights, numbers.autocast, prepare)


def peer_curve(a, checkpoint, numbers):
    trainer = peer(a, checkpoint, numbers, clip=True)
    return curve([trainer.step(s) for s in range(a.steps)])


def weft_gradients(a, deck, folder, *sets):
    """The first moments after a step without clipping."""
    run([a.binary, "train", deck, "--set", f"run.dir={folder}", "--set", "run.steps=1", "--set", "optimizer.warmup=0", "--set", "optimizer.clip=0",
         "--set", "checkpoint.final=true", *sets])
    return first_moments(folder / "checkpoints" / "step-00000001")


def peer_gradients(a, checkpoint, numbers):
    trainer = peer(a, checkpoint, numbers, clip=False)
    trainer.step(0)
    moments = {weft_path(name): trainer.optimizer.state[p]["exp_avg"] for name, p in trainer.model.named_parameters()}
    return {name: m.full_tensor() if hasattr(m, "full_tensor") else m for name, m in moments.items()}


def distance_of_gradients(found, expected):
    """The distance over the norm, of all parameters together."""
    squares = [((found[name] - expected[name]).double().square().sum(), expected[name].double().square().sum()) for name in expected]
    return (sum(s[0] for s in squares) / sum(s[1] for s in squares)).sqrt().item()


def distances(found, expected):
    """The largest relative distance of a loss, and of a gradient norm."""
    return tuple(largest([relative(f[i], e[i]) for f, e in zip(found, expected, strict=True)]) for i in (0, 1))


def draw(a, seed, folder):
    """Trains in all kinds of numbers from one draw of weights and tokens. Gives the three distances of each from the same program's fp32."""
    deck = folder / f"deck{seed}.toml"
    deck.write_text(DECK.format(seed=seed, steps=a.steps, folder=folder))
    scales = ("--set", f"precision.float8_scales={a.scales}")
    sets = {kind: s + scales if kind in (FLOAT8, LIKE_FLOAT8) else s for kind, s in WEFT.items()}
    runs = {kind: folder / f"{kind.removeprefix('Weft, ').replace(', ', '_').replace(' ', '_')}{seed}" for kind in WEFT}
    curves = {kind: weft(a, deck, runs[kind], *s) for kind, s in sets.items()}
    gradients = {kind: weft_gradients(a, deck, folder / f"{runs[kind].name}-first", *s) for kind, s in sets.items()}
    start = runs[FP32] / "checkpoints" / "step-00000000"
    for kind, numbers in PEERS.items():
        curves[kind], gradients[kind] = peer_curve(a, start, numbers), peer_gradients(a, start, numbers)
    found = {}
    for kinds, exact in ((WEFT, FP32), (PEERS, PEER_FP32)):
        for kind in kinds.keys() - {exact}:
            found[kind] = (distance_of_gradients(gradients[kind], gradients[exact]), *distances(curves[kind], curves[exact]))
    apart = distance_of_gradients(gradients[FP32], gradients[PEER_FP32])
    print(f"draw {seed}, loss {curves[FP32][0][0]:.3f} to {curves[FP32][-1][0]:.3f}, first gradients in fp32 {apart:.1e} apart: " + "; ".join(
        f"{kind} {found[kind][0]:.3e}, loss {found[kind][1]:.2e}, norm {found[kind][2]:.2e}" for kind in ROWS), flush=True)
    return found


def report(draws):
    """Prints the medians, and those of Weft over its peers', which LIMITS bounds. Says whether all are within."""
    print(f"\nmedian of {len(draws)} draws (largest)\n| | " + " | ".join(COLUMNS) + " |\n|---|" + "---:|" * len(COLUMNS))
    medians = {}
    for kind in ROWS:
        columns = list(zip(*(d[kind] for d in draws)))
        medians[kind] = dict(zip(COLUMNS, map(statistics.median, columns)))
        print(f"| {kind} | " + " | ".join(f"{statistics.median(x):.2e} ({largest(x):.2e})" for x in columns) + " |")
    print()
    held = True
    for own, other, column, limit in LIMITS:
        ratio = medians[own][column] / medians[other][column]
        held &= ratio <= limit  # false of NaN
        print(f"{own} over {other}: {column} {ratio:.3f}, at most {limit}")
    return held


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--binary", default="build/cpu/weft")
    p.add_argument("--draws", type=int, default=12)
    p.add_argument("--steps", type=int, default=30)
    p.add_argument("--scales", choices=["rowwise", "tensorwise"], default="rowwise")
    p.add_argument("--keep", help="a new directory for the runs, which stay")
    a = p.parse_args()
    a.binary = str(pathlib.Path(a.binary).resolve())
    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)  # FSDP2 wants one
    with nullcontext(a.keep) if a.keep else tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder).resolve()
        folder.mkdir(exist_ok=True)
        run([a.binary, "data", "tokenize", "docs/deck.md", "--tokenizer", "byte", "--train", folder / "text.bin"])
        draws = [draw(a, seed, folder) for seed in range(1, a.draws + 1)]
    dist.destroy_process_group()
    if not report(draws):
        sys.exit("torch_float8.py: Weft is further away from fp32 than PyTorch, by more than a limit above")


if __name__ == "__main__":
    main()
