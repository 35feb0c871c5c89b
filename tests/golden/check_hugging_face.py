"""Weft and transformers hand a model to each other, by hand: python check_hugging_face.py WEFT. Needs the packages of perf/peers/setup.sh.

Trains a model with WEFT (build/cpu/weft), exports it, loads it in transformers, holds its loss on the validation text against Weft's, saves it
there in other files, imports and exports that again: all tensors have the same bytes. Prints a line for each comparison; fails at the first
that is not so."""
import json
import pathlib
import subprocess
import sys
import tempfile

import h5py
import torch
from safetensors.torch import load_file
from transformers import LlamaForCausalLM

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "perf/peers"))
from weft_files import TokenFile  # noqa: E402

SEQ = 64
DECK = """
[run]
name = "check"
steps = 30
[model]
dim = 96
layers = 3
heads = 6
kv_heads = 2
ffn = 256
vocab = 257
rope_theta = 10000.0
norm_eps = 1e-6
[data]
train = "train.bin"
valid = "valid.bin"
seq = 64
batch = 4
global_batch = 8
[optimizer]
lr = 3e-3
warmup = 5
"""
TIED = ["model.tie_embeddings=true", "model.rope_scaling.factor=8", "model.rope_scaling.original_max_position=16"]
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}


def tensors(directory):
    found = {}
    for file in sorted(directory.glob("*.safetensors")):
        found |= load_file(file)
    return found


def same_bytes(a, b):
    return a.keys() == b.keys() and all(a[n].dtype == b[n].dtype and a[n].shape == b[n].shape and
                                        torch.equal(a[n].view(torch.uint8), b[n].view(torch.uint8)) for n in a)


def masters(checkpoint):
    with h5py.File(checkpoint / "index.h5") as f:
        # wo and w2 are stored [in, out]
        return {name: torch.from_numpy(data[...].T.copy() if name.endswith((".wo", ".w2")) else data[...]) for name, data in f["model"].items()}


def loss_of(model, tokens):
    total = 0.0
    with torch.no_grad():
        for w in range(tokens.windows(SEQ)):
            ids = tokens.window(w, SEQ)
            total += torch.nn.functional.cross_entropy(model(ids[None, :-1]).logits[0], ids[1:], reduction="sum").item()
    return total / (tokens.windows(SEQ) * SEQ)


def check(work, weft, name, sets):
    run = work / name
    arguments = ["deck.toml", "--set", f"run.dir={run}"] + [x for s in sets for x in ("--set", s)]
    weft("train", *arguments)
    ours = [line for line in map(json.loads, (run / "metrics.jsonl").read_text().splitlines()) if line["kind"] == "valid"][-1]["loss"]
    checkpoint = (run / "checkpoints/latest").resolve()
    for dtype, torch_dtype in DTYPES.items():
        out, again, back = (run / f"{dtype}_{part}" for part in ("exported", "saved", "exported_again"))
        weft("checkpoint", "export", checkpoint, out, "--dtype", dtype, "--shard-size", "500000")
        model, report = LlamaForCausalLM.from_pretrained(out, dtype="auto", output_loading_info=True)
        assert model.dtype == torch_dtype and not any(report.values()), (model.dtype, report)
        model.save_pretrained(again, max_shard_size="300KB")
        assert same_bytes(tensors(out), tensors(again)), f"{name} {dtype}: transformers saved other bytes"
        imported = run / f"{dtype}_imported"
        weft("checkpoint", "import", again, imported)
        weft("checkpoint", "export", imported / "step-00000000", back, "--dtype", dtype, "--shard-size", "500000")
        assert same_bytes(tensors(again), tensors(back)), f"{name} {dtype}: the way back changed bytes"
        if dtype == "f32":
            a, b = masters(checkpoint), masters(imported / "step-00000000")
            assert same_bytes(a, b), f"{name}: other masters"
            loaded = LlamaForCausalLM.from_pretrained(back, dtype="auto")
            ids = torch.arange(SEQ)[None] % 257
            with torch.no_grad():
                assert torch.equal(model(ids).logits, loaded(ids).logits), f"{name}: other logits"
            theirs = loss_of(model, TokenFile(work / "valid.bin"))
            print(f"{name}: validation loss {ours:.9f} in Weft, {theirs:.9f} in transformers, difference {abs(ours - theirs) / ours:.1e}")
            assert abs(ours - theirs) < 1e-6 * ours
        print(f"{name} {dtype}: {len(list(out.glob('*.safetensors')))} files out, {len(list(again.glob('*.safetensors')))} saved by transformers, "
              f"{len(tensors(out))} tensors byte-equal after the way there and back")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    program = pathlib.Path(sys.argv[1]).resolve()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as directory:
        work = pathlib.Path(directory)

        def weft(*arguments):
            subprocess.run([program, *map(str, arguments)], cwd=work, check=True, stdout=subprocess.DEVNULL)

        (work / "deck.toml").write_text(DECK)
        text = "".join(f"In line {i} the ship sails over the grey sea, {i * i % 97} miles from land.\n\n" for i in range(600))
        (work / "text.txt").write_text(text)
        weft("data", "tokenize", "text.txt", "--train", "train.bin", "--valid", "valid.bin", "--valid-fraction", "0.1")
        check(work, weft, "untied", [])
        check(work, weft, "tied", TIED)


main()
