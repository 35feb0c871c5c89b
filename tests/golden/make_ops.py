"""ops.h5: every op forward and backward. A group is <op>/<case>/<f32|bf16>; inputs are rounded to that dtype first. Each result R is
stored as R (PyTorch in fp64 on those inputs, rounded to fp32) with the attribute R_error of the group: the largest distance of
PyTorch's own result in that dtype from R, over R's largest element."""
import math
from dataclasses import asdict

import torch
import torch.nn.functional as F

from golden_file import write, write_attributes
from llama import Scaling, apply_rope, attention, rope_tables

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
INTEGER = (torch.int32, torch.int64)


class Source:
    """Seeded random inputs."""

    def __init__(self, seed):
        self.g = torch.Generator().manual_seed(seed)

    def normal(self, *shape, std=1.0, mean=0.0):
        return mean + std * torch.randn(shape, generator=self.g)

    def ids(self, high, *shape):
        return torch.randint(0, high, shape, generator=self.g)


def evaluate(fn, inputs, upstream, dtype):
    """{"y": fn(**inputs), "d<input>": its gradient} for floating inputs; dy is `upstream`."""
    args = {k: v if v.dtype in INTEGER else v.detach().clone().to(dtype).requires_grad_() for k, v in inputs.items()}
    y = fn(**args)
    y.backward(upstream.to(y.dtype))
    return {"y": y.detach()} | {"d" + k: v.grad for k, v in args.items() if v.dtype not in INTEGER}


def write_result(group, name, exact, torch_result):
    scale = exact.abs().max().clamp_min(1e-300)
    write(group, name, exact.float())
    write_attributes(group, {name + "_error": ((torch_result.double() - exact).abs().max() / scale).item()})


def add(f, path, fn, inputs, upstream, attributes=None, extra=None):
    """fn maps the inputs to one tensor y. `extra` maps the inputs, in fp64, to more results that PyTorch's op does not return."""
    for name, dtype in DTYPES.items():
        group = f.create_group(f"{path}/{name}")
        rounded = {k: v if v.dtype in INTEGER else v.to(dtype) for k, v in inputs.items()}
        dy = upstream.to(dtype)
        for k, v in rounded.items():
            write(group, k, v)
        if dy.dim():
            write(group, "dy", dy)
        exact = evaluate(fn, rounded, dy, torch.float64)
        found = evaluate(fn, rounded, dy, dtype)
        for k in exact:
            write_result(group, k, exact[k], found[k])
        for k, v in (extra(**{k: v if v.dtype in INTEGER else v.double() for k, v in rounded.items()}) if extra else {}).items():
            write(group, k, v.float())
        write_attributes(group, attributes or {})


def embedding(f, s):
    for case, vocab, dim, shape in (("small", 37, 24, (3, 11)), ("odd", 13, 5, (1, 29))):
        add(f, "embedding/" + case, lambda table, ids: F.embedding(ids, table),
            dict(table=s.normal(vocab, dim), ids=s.ids(vocab, *shape)), s.normal(*shape, dim))


def rms_norm(f, s):
    for case, rows, dim, std, mean, eps in (("plain", 6, 64, 1.0, 0.0, 1e-5), ("odd", 5, 67, 2.0, 0.3, 1e-5), ("one_row", 1, 257, 1.0, 0.0, 1e-6),
                                            ("small_variance", 7, 48, 1e-3, 0.0, 1e-5), ("tiny_variance", 4, 33, 1e-6, 0.0, 1e-5),
                                            ("large_mean", 5, 40, 1e-2, 50.0, 1e-5)):
        x = s.normal(rows, dim, std=std, mean=mean)
        if case == "small_variance":
            x[2] = 0
        add(f, "rms_norm/" + case, lambda x, w: F.rms_norm(x, (x.shape[-1],), w, eps), dict(x=x, w=s.normal(dim, std=0.2, mean=1)),
            s.normal(rows, dim), dict(eps=eps))


def rope(f, s):
    llama31 = Scaling()
    short = Scaling(factor=4.0, low_freq_factor=1.0, high_freq_factor=2.0, original_seq=32)
    near, far = torch.arange(9), torch.tensor([0, 1, 63, 1000, 8191, 8192, 100003, 131071])
    for case, positions, heads, dim, theta, scaling in (("near", near, 3, 16, 500000.0, None), ("theta_10000", near, 1, 6, 10000.0, None),
                                                        ("far", far, 1, 64, 500000.0, None), ("far_scaled", far, 1, 64, 500000.0, llama31),
                                                        ("near_scaled", near, 1, 32, 10000.0, short)):
        def tables(x, positions):  # exact; Meta's fp32 angles are off by 1e-3 at 1e5 radians
            return dict(zip(("cos", "sin"), rope_tables(positions, dim, theta, scaling, torch.float64)))

        def fn(x, positions):
            return apply_rope(x, *tables(x, positions).values())

        add(f, "rope/" + case, fn, dict(x=s.normal(1, len(positions), heads, dim), positions=positions), s.normal(1, len(positions), heads, dim),
            dict(theta=theta) | ({"scaling_" + k: v for k, v in asdict(scaling).items()} if scaling else {}), tables)


def causal_lse(q, k, v):
    """Log-sum-exp of the scaled scores, natural logarithm, [B, H, T]."""
    k = k.repeat_interleave(q.shape[2] // k.shape[2], 2)
    scores = torch.einsum("bthd,bshd->bhts", q, k) / math.sqrt(q.shape[3])
    mask = torch.ones(q.shape[1], q.shape[1], dtype=torch.bool).triu(1)
    return dict(lse=scores.masked_fill(mask, -math.inf).logsumexp(-1))


def causal_attention(f, s):
    for case, b, t, h, kv, d, std in (("gqa", 2, 19, 4, 2, 16, 1.0), ("one_token", 2, 1, 2, 1, 8, 1.0), ("mha_odd", 1, 29, 3, 3, 20, 1.0),
                                      ("mqa_long", 1, 81, 3, 1, 8, 1.0), ("sharp", 1, 21, 4, 2, 8, 6.0), ("small_variance", 1, 19, 2, 1, 16, 1e-3)):
        add(f, "attention/" + case, attention, dict(q=s.normal(b, t, h, d, std=std), k=s.normal(b, t, kv, d, std=std), v=s.normal(b, t, kv, d)),
            s.normal(b, t, h, d), extra=causal_lse)


def swiglu(f, s):
    for case, rows, dim, std in (("plain", 5, 48, 1.0), ("odd", 3, 17, 3.0), ("saturated", 2, 33, 40.0), ("small_variance", 4, 24, 1e-3)):
        add(f, "swiglu/" + case, lambda gate, up: F.silu(gate) * up, dict(gate=s.normal(rows, dim, std=std), up=s.normal(rows, dim)),
            s.normal(rows, dim))


def cross_entropy(f, s):
    """y is the sum over the rows whose target is not -1; dlogits is softmax minus one-hot, unscaled."""
    for case, rows, vocab, std, ignored in (("plain", 9, 64, 1.0, ()), ("odd_ignored", 11, 51, 2.0, (0, 4, 10)), ("large_logits", 4, 301, 30.0, (1,)),
                                            ("small_variance", 5, 40, 1e-3, ()), ("all_ignored", 3, 19, 1.0, (0, 1, 2))):
        targets = s.ids(vocab, rows)
        targets[list(ignored)] = -1
        fn = lambda logits, targets: F.cross_entropy(  # noqa: E731
            logits.to(torch.promote_types(logits.dtype, torch.float32)), targets, reduction="sum", ignore_index=-1)
        add(f, "cross_entropy/" + case, fn, dict(logits=s.normal(rows, vocab, std=std), targets=targets), torch.ones(()))


def linear(f, s):
    for case, rows, inner, outer in (("plain", 12, 32, 48), ("odd", 7, 19, 33), ("one_row", 1, 40, 9), ("tall", 70, 16, 8)):
        add(f, "linear/" + case, lambda x, w: F.linear(x, w), dict(x=s.normal(rows, inner), w=s.normal(outer, inner, std=0.2)), s.normal(rows, outer))


def adamw(f, s):
    """States after each step, [steps, elements]; lr is a dataset."""
    for case, n, steps, grad_std, betas, eps, decay in (("plain", 101, 6, 1.0, (0.9, 0.95), 1e-8, 0.1), ("small_gradients", 64, 5, 1e-7, (0.9, 0.95), 1e-8, 0.1),
                                                        ("no_decay", 33, 4, 1e-2, (0.9, 0.999), 1e-5, 0.0), ("strong_decay", 40, 4, 1.0, (0.8, 0.99), 1e-8, 0.5)):
        lr, grads, w0 = [1e-2 * (i + 1) / steps for i in range(steps)], s.normal(steps, n, std=grad_std), s.normal(n)
        grads[:, 3] = 0
        results = {}
        for dtype in (torch.float64, torch.float32):
            p = w0.clone().to(dtype).requires_grad_()
            opt = torch.optim.AdamW([p], lr=lr[0], betas=betas, eps=eps, weight_decay=decay)
            history = {"w": [], "m": [], "v": []}
            for i in range(steps):
                p.grad = grads[i].to(dtype)
                opt.param_groups[0]["lr"] = lr[i]
                opt.step()
                for key, value in zip("wmv", (p, opt.state[p]["exp_avg"], opt.state[p]["exp_avg_sq"])):
                    history[key].append(value.detach().clone())
            results[dtype] = {k: torch.stack(v) for k, v in history.items()}
        group = f.create_group("adamw/" + case)
        for key, value in (("w0", w0), ("grads", grads), ("lr", torch.tensor(lr, dtype=torch.float64))):
            write(group, key, value)
        for key, value in results[torch.float32].items():
            write_result(group, key, results[torch.float64][key], value)
        write_attributes(group, dict(beta1=betas[0], beta2=betas[1], eps=eps, weight_decay=decay))


def clip_grad_norm(f, s):
    """One long gradient and a short one; PyTorch scales by min(1, max_norm / (norm + 1e-6))."""
    for case, std, max_norm in (("active", 1.0, 1.0), ("inactive", 1e-3, 1.0), ("edge", 1.0, 31.6), ("tiny", 1e-5, 1e-4)):
        grads = [s.normal(1000, std=std), s.normal(7, std=std)]
        group = f.create_group("clip_grad_norm/" + case)
        params = [torch.zeros_like(g).double().requires_grad_() for g in grads]
        for i, (p, g) in enumerate(zip(params, grads)):
            write(group, f"grad{i}", g)
            p.grad = g.double()
        norm = torch.nn.utils.clip_grad_norm_(params, max_norm)
        for i, p in enumerate(params):
            write(group, f"clipped{i}", p.grad.float())
        write_attributes(group, dict(max_norm=max_norm, norm=norm.item()))


def make(f):
    torch.set_num_threads(1)
    for i, op in enumerate((embedding, rms_norm, rope, causal_attention, swiglu, cross_entropy, linear, adamw, clip_grad_norm)):
        op(f, Source(100 + i))
