#!/usr/bin/env python3
"""PyTorch's kernels at the shapes of perf/bench_kernels: a line of JSON {"name/model/type": milliseconds}, and each on stderr as it comes.

  torch_kernels.py [--threads 1] [--models 33m 8b odd] [--device cpu|cuda] [--seconds 1]

Pointwise operations and losses are compiled by torch.compile, matmuls and attention are the library's; forward and backward are timed
apart, as bench_kernels times them. The median of so many seconds' repetitions, each until the device has ended; on a GPU one is 5 ms of runs,
because waiting for their end takes some microseconds. The operands are one set, and bench_kernels takes turns on two there: where one fits a
GPU's second-level cache and two do not, PyTorch's side is the faster for it.
"""
import argparse, json, statistics, sys, time

import torch
import torch.nn.functional as F

MODELS = {  # batch, seq, dim, ffn, heads, kv_heads, head_dim, vocab
    "33m": (4, 512, 512, 1536, 8, 4, 64, 8192),
    "8b": (1, 8192, 4096, 14336, 32, 8, 128, 128256),
    "odd": (3, 333, 330, 1001, 6, 3, 55, 4099),
}
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--models", nargs="+", default=["33m", "odd"], choices=MODELS)
parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
parser.add_argument("--seconds", type=float, default=1.0)
a = parser.parse_args()
torch.set_num_threads(a.threads)
torch.set_default_device(a.device)
result = {}


def synchronize():
    if a.device == "cuda":
        torch.cuda.synchronize()


def milliseconds(run):
    run(), run()
    times, runs = [], 1
    synchronize()
    end = time.perf_counter() + a.seconds
    while len(times) < 3 or time.perf_counter() < end:
        begin = time.perf_counter()
        for _ in range(runs):
            run()
        synchronize()
        times.append((time.perf_counter() - begin) / runs)
        if a.device == "cuda" and len(times) == 1:
            runs = max(1, round(5e-3 / times.pop()))
    return 1e3 * statistics.median(times)


def put(name, run):
    full_name = f"{name}/{model}/{kind}"
    result[full_name] = milliseconds(run)
    print(f"PyTorch: {full_name:42}{result[full_name]:10.3f} ms", file=sys.stderr, flush=True)


def backward(y, inputs):
    """The backward of y, with a gradient like y; the graph is kept."""
    dy = torch.randn_like(y)
    return lambda: torch.autograd.grad(y, inputs, dy, retain_graph=True)


def rms_norm(x, w):
    return F.rms_norm(x, (x.shape[-1],), w, 1e-5)


def add_rms_norm(x, branch, w):
    total = x + branch
    return total, rms_norm(total, w)


def swiglu(gate, up):
    return F.silu(gate) * up


def loss(z, targets):
    return F.cross_entropy(z.float(), targets, reduction="sum")


for model in a.models:
    batch, seq, dim, ffn, heads, kv_heads, d, vocab = MODELS[model]
    rows = batch * seq
    for kind, t in (("f32", torch.float32), ("bf16", torch.bfloat16)):
        new = lambda *shape: torch.randn(*shape, dtype=t)
        leaf = lambda *shape: new(*shape).requires_grad_()
        for name, k, n in (("qkv", dim, (heads + 2 * kv_heads) * d), ("proj", heads * d, dim), ("gate_up", dim, 2 * ffn), ("down", ffn, dim)):
            x, w, y = new(rows, k), new(n, k), new(rows, n)
            put(f"matmul_{name}", lambda: F.linear(x, w))
            put(f"matmul_{name}_dgrad", lambda: y @ w)
            put(f"matmul_{name}_wgrad", lambda: y.t() @ x)
        q, k, v = (leaf(batch, seq, h, d).transpose(1, 2) for h in (heads, kv_heads, kv_heads))
        sdpa = lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        put("attention", sdpa)
        put("attention_grad", backward(sdpa(), (q, k, v)))
        x, w, branch = leaf(rows, dim), leaf(dim), leaf(rows, dim)
        norm, add_norm, act = torch.compile(rms_norm), torch.compile(add_rms_norm), torch.compile(swiglu)
        with torch.no_grad():
            put("rms_norm", lambda: norm(x, w))
            put("add_rms_norm", lambda: add_norm(x, branch, w))
        put("rms_norm_grad", backward(norm(x, w), (x, w)))
        gate, up = leaf(rows, ffn), leaf(rows, ffn)
        with torch.no_grad():
            put("swiglu", lambda: act(gate, up))
        put("swiglu_grad", backward(act(gate, up), (gate, up)))
        tokens = torch.randint(vocab, (rows,))
        table = leaf(vocab, dim)
        with torch.no_grad():
            put("embedding", lambda: F.embedding(tokens, table))
        put("embedding_grad", backward(F.embedding(tokens, table), (table,)))
        z, targets = leaf(min(rows, 512), vocab), torch.randint(vocab, (min(rows, 512),))
        criterion = torch.compile(loss)
        with torch.no_grad():
            put("cross_entropy", lambda: criterion(z, targets))
        put("cross_entropy_grad", backward(criterion(z, targets), (z,)))
        if kind == "f32":  # Weft's bf16 parameters have fp32 masters and moments, and PyTorch's have none
            p = leaf(dim * (2 * heads * d + 2 * kv_heads * d + 3 * ffn))
            p.grad = torch.randn_like(p)
            optimizer = torch.optim.AdamW([p], fused=True)
            put("adamw", optimizer.step)
print(json.dumps(result))
