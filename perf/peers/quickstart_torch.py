"""Trains the model of a Weft run in PyTorch: same initial weights, tokens, order, schedule and optimizer; one process.

    weft train DECK ...                                   # once, keeping its checkpoint of step 0
    python quickstart_torch.py RUN/checkpoints/step-00000000 --out peer.jsonl

The deck is the one in the checkpoint. Prints a JSON line for each step and validation, with the fields of Weft's metrics.jsonl."""
import argparse
import json
import math
import pathlib
import sys
import time
from contextlib import nullcontext

import torch
import torch.nn.functional as F

from llama import Llama
from weft_files import load_weights, one_file, open_checkpoint, shape_of

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden"))
from shuffle import sequence  # noqa: E402


def learning_rate(o, steps, s):
    """The learning rate of step s, counted from 0: a linear warm-up, then `decay` (docs/deck.md, [optimizer])."""
    if s < o["warmup"]:
        return o["lr"] * (s + 1) / o["warmup"]
    begin = max(o["warmup"], steps - o["decay_steps"]) if o["decay"] == "wsd" else o["warmup"]
    p = min(max((s - begin) / max(1, steps - begin), 0.0), 1.0)
    if o["decay"] == "constant":
        return o["lr"]
    if o["decay"] == "cosine":
        return o["min_lr"] + 0.5 * (o["lr"] - o["min_lr"]) * (1 + math.cos(math.pi * p))
    return o["lr"] + (o["min_lr"] - o["lr"]) * p


def loss_sum(model, sequences, cast):
    with cast:
        logits = model(sequences[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1).float(), sequences[:, 1:].flatten(), reduction="sum")


class Run:
    def __init__(self, deck, weights, autocast, prepare=lambda _model: None):
        """autocast: whether forward runs under autocast to bf16. prepare changes the model once it has its weights, before it has an optimizer."""
        self.deck, self.data, self.o, self.steps = deck, deck["data"], deck["optimizer"], deck["run"]["steps"]
        self.model = Llama(shape_of(deck))
        load_weights(self.model, weights)
        prepare(self.model)
        self.train_file = one_file(self.data["train"], "data.train")
        self.valid_file = one_file(self.data["valid"], "data.valid") if self.data["valid"] else None
        self.cast = torch.autocast("cpu", torch.bfloat16) if autocast else nullcontext()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=self.o["lr"], betas=(self.o["beta1"], self.o["beta2"]),
                                           eps=self.o["eps"], weight_decay=self.o["weight_decay"], fused=True)

    def microbatch(self, step, m):
        """Row r of microbatch m is sample step * global_batch + m * batch + r of the run."""
        seq, batch, n = self.data["seq"], self.data["batch"], self.train_file.windows(self.data["seq"])
        first = step * self.data["global_batch"] + m * batch
        return torch.stack([self.train_file.window(sequence(self.deck["run"]["seed"], n, first + r), seq) for r in range(batch)])

    def step(self, s):
        start, total = time.perf_counter(), 0.0
        tokens = self.data["global_batch"] * self.data["seq"]
        for m in range(self.data["global_batch"] // self.data["batch"]):
            loss = loss_sum(self.model, self.microbatch(s, m), self.cast)
            (loss / tokens).backward()
            total += loss.item()
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.o["clip"] or math.inf).item()
        lr = self.optimizer.param_groups[0]["lr"] = learning_rate(self.o, self.steps, s)
        self.optimizer.step()
        self.optimizer.zero_grad()
        seconds = time.perf_counter() - start
        return dict(kind="train", step=s + 1, loss=total / tokens, grad_norm=norm, lr=lr, tokens=tokens, tokens_per_s=tokens / seconds,
                    step_s=seconds)

    @torch.no_grad()
    def validate(self, s):
        """Windows of the validation file from the first, data.valid_sequences of them (0: all)."""
        seq, f = self.data["seq"], self.valid_file
        count = min(f.windows(seq), self.data["valid_sequences"] or f.windows(seq))
        total = sum(loss_sum(self.model, torch.stack([f.window(w, seq) for w in range(b, min(b + self.data["batch"], count))]), self.cast).item()
                    for b in range(0, count, self.data["batch"]))
        return dict(kind="valid", step=s + 1, loss=total / (count * seq), tokens=count * seq,
                    bits_per_byte=total / (math.log(2) * f.target_bytes(count, seq)))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("checkpoint", help="directory of Weft's checkpoint of step 0")
    p.add_argument("--out", help="write the lines here, too")
    p.add_argument("--steps", type=int, help="stop early; the schedule stays the deck's")
    p.add_argument("--threads", type=int, default=torch.get_num_threads())
    a = p.parse_args()
    torch.set_num_threads(a.threads)
    deck, weights, step = open_checkpoint(a.checkpoint)
    if step != 0:
        raise SystemExit(f"{a.checkpoint} is of step {step}; this peer starts from step 0, without moments")
    run, out = Run(deck, weights, autocast=deck["precision"]["params"] == "bf16"), open(a.out, "w") if a.out else None
    last = min(run.steps, a.steps or run.steps)
    for s in range(last):
        records, every = [run.step(s)], run.data["valid_every"]
        if run.valid_file and (s + 1 == last or (every and (s + 1) % every == 0)):
            records.append(run.validate(s))
        for record in records:
            print(json.dumps(record), flush=True)
            if out:
                print(json.dumps(record), file=out, flush=True)


if __name__ == "__main__":
    main()
