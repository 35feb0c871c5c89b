"""Trains a small Llama in Float8 in Weft and with torchao, from the same initial weights on the same tokens, and says how far each is from fp32.

    python torch_float8.py [--binary build/cpu/weft] [--draws 8] [--steps 30] [--scales rowwise] [--keep DIR]

Both make the products of all layers but the first and the last in Float8, and the gradients of weights in bf16. torchao: its recipe
rowwise_with_gw_hp, emulated, so that it runs without a GPU, under autocast to bf16; Weft: precision.float8 = ["layers.*"]. With --scales
tensorwise both have one scale for all rows, and torchao the gradients of weights in bf16 nevertheless. For each draw of
weights and tokens it prints how far Float8, and bf16 alone, are from the same program's run in fp32: the distance of the first gradients over
their norm, and the largest relative distance of a loss and of a gradient norm over all steps; then the means over the draws. It fails when
the mean distance of Weft's first gradients is larger than torchao's by more than 5 %. (Losses say less: rounding grows from step to step
in any implementation, so that the draws of one differ by a factor of ten.)"""
import argparse
import json
import pathlib
import statistics
import sys
import tempfile
from contextlib import nullcontext

import torch

from quickstart_torch import Run
from torch_mesh import largest, relative, run
from llama import weft_path
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
BF16 = ("--set", "precision.params=bf16")
KINDS = {"f32": (), "bf16": BF16, "f8": (*BF16, "--set", 'precision.float8=["layers.*"]')}  # with Weft's settings


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
    for name in chosen:  # torchao looks for autocast on a GPU only
        model.get_submodule(name).register_forward_pre_hook(lambda _module, x: (x[0].bfloat16(),))


def peer(a, checkpoint, kind, clip):
    deck, weights, _ = open_checkpoint(checkpoint)
    deck["precision"]["params"] = "f32" if kind == "f32" else "bf16"
    if not clip:
        deck["optimizer"]["clip"] = 0
    trainer = Run(deck, weights)
    if kind == "f8":
        in_float8(trainer.model, deck["model"]["layers"], a.scales)
    return trainer


def weft_gradients(a, deck, folder, *sets):
    """The first moments after a step without clipping."""
    run([a.binary, "train", deck, "--set", f"run.dir={folder}", "--set", "run.steps=1", "--set", "optimizer.warmup=0", "--set", "optimizer.clip=0",
         "--set", "checkpoint.final=true", *sets])
    return first_moments(folder / "checkpoints" / "step-00000001")


def peer_gradients(a, checkpoint, kind):
    trainer = peer(a, checkpoint, kind, clip=False)
    trainer.step(0)
    return {weft_path(name): trainer.optimizer.state[p]["exp_avg"] for name, p in trainer.model.named_parameters()}


def distance_of_gradients(found, expected):
    """The distance over the norm, of all parameters together."""
    squares = [((found[name] - expected[name]).double().square().sum(), expected[name].double().square().sum()) for name in expected]
    return (sum(s[0] for s in squares) / sum(s[1] for s in squares)).sqrt().item()


def distances(found, expected):
    """The largest relative distance of a loss, and of a gradient norm."""
    return tuple(largest([relative(f[i], e[i]) for f, e in zip(found, expected, strict=True)]) for i in (0, 1))


def draw(a, seed, folder):
    deck = folder / f"deck{seed}.toml"
    deck.write_text(DECK.format(seed=seed, steps=a.steps, folder=folder))
    runs = {kind: folder / f"{kind}{seed}" for kind in KINDS}
    kinds = KINDS | {"f8": (*KINDS["f8"], "--set", f"precision.float8_scales={a.scales}")}
    own = {kind: weft(a, deck, runs[kind], *sets) for kind, sets in kinds.items()}
    start = runs["f32"] / "checkpoints" / "step-00000000"
    torchs = {}
    for kind in KINDS:
        trainer = peer(a, start, kind, clip=True)
        torchs[kind] = curve([trainer.step(s) for s in range(a.steps)])
    first = {"Weft": {kind: weft_gradients(a, deck, folder / f"first-{kind}{seed}", *sets) for kind, sets in kinds.items()},
             "PyTorch": {kind: peer_gradients(a, start, kind) for kind in KINDS}}
    found = {}
    for program, curves in (("Weft", own), ("PyTorch", torchs)):
        for kind in ("bf16", "f8"):
            found[program, kind] = (distance_of_gradients(first[program][kind], first[program]["f32"]), *distances(curves[kind], curves["f32"]))
    apart = distance_of_gradients(first["Weft"]["f32"], first["PyTorch"]["f32"])
    print(f"draw {seed}, loss {own['f32'][0][0]:.3f} to {own['f32'][-1][0]:.3f}, first gradients in fp32 {apart:.1e} apart: " + "; ".join(
        f"{program} {kind} {gradients:.3e}, loss {loss:.2e}, norm {norm:.2e}" for (program, kind), (gradients, loss, norm) in found.items()), flush=True)
    return found


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--binary", default="build/cpu/weft")
    p.add_argument("--draws", type=int, default=8)
    p.add_argument("--steps", type=int, default=30)
    p.add_argument("--scales", choices=["rowwise", "tensorwise"], default="rowwise")
    p.add_argument("--keep", help="a new directory for the runs, which stay")
    a = p.parse_args()
    a.binary = str(pathlib.Path(a.binary).resolve())
    torch.set_num_threads(1)
    with nullcontext(a.keep) if a.keep else tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder).resolve()
        folder.mkdir(exist_ok=True)
        run([a.binary, "data", "tokenize", "docs/deck.md", "--tokenizer", "byte", "--train", folder / "text.bin"])
        draws = [draw(a, seed, folder) for seed in range(1, a.draws + 1)]
    print(f"\nmean of {a.draws} draws (largest)\n| | first gradients | loss | gradient norm |\n|---|---:|---:|---:|")
    means = {}
    for key in draws[0]:
        gradients, losses, norms = ([d[key][i] for d in draws] for i in range(3))
        means[key] = statistics.mean(gradients)
        print(f"| {key[0]}, {key[1]} | " + " | ".join(f"{statistics.mean(x):.2e} ({largest(x):.2e})" for x in (gradients, losses, norms)) + " |")
    if not means["Weft", "f8"] <= 1.05 * means["PyTorch", "f8"]:
        sys.exit("torch_float8.py: Weft's gradients are further away from fp32 than torchao's")


if __name__ == "__main__":
    main()
