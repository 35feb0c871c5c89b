"""A Llama 3 in plain PyTorch, as a function of named weights. The names are Weft's module paths; matrices are [out, in]; rotary
pairs are interleaved (Meta's convention). Runs in fp64, fp32 and bf16: everything takes the weights' dtype."""
import math
from dataclasses import dataclass, replace  # noqa: F401 (replace: for callers)

import torch
import torch.nn.functional as F


@dataclass(frozen=True)
class Scaling:
    """Llama 3.1's rule: long wavelengths are divided by `factor`, short ones kept, those between are blended."""
    factor: float = 8.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_seq: int = 8192


@dataclass(frozen=True)
class Spec:
    dim: int
    layers: int
    heads: int
    kv_heads: int
    ffn: int
    vocab: int
    rope_theta: float = 500000.0
    norm_eps: float = 1e-5
    tied: bool = False
    scaling: Scaling | None = None
    tables: torch.dtype = torch.float32  # arithmetic of the rotary angles; Meta and transformers use fp32

    @property
    def head_dim(self):
        return self.dim // self.heads


def shapes(spec):
    """Module path -> shape, in Weft's order."""
    kv = spec.kv_heads * spec.head_dim
    out = {"embed.table": (spec.vocab, spec.dim)}
    for n in range(spec.layers):
        p = f"layers.{n}."
        out |= {p + "attn.norm": (spec.dim,), p + "attn.wq": (spec.dim, spec.dim), p + "attn.wk": (kv, spec.dim),
                p + "attn.wv": (kv, spec.dim), p + "attn.wo": (spec.dim, spec.dim), p + "ffn.norm": (spec.dim,),
                p + "ffn.w1": (spec.ffn, spec.dim), p + "ffn.w3": (spec.ffn, spec.dim), p + "ffn.w2": (spec.dim, spec.ffn)}
    out["head.norm"] = (spec.dim,)
    if not spec.tied:
        out["head.weight"] = (spec.vocab, spec.dim)
    return out


def random_weights(spec, seed, std):
    """Normal matrices; norms near one, so that their gradients and their decay are seen."""
    g = torch.Generator().manual_seed(seed)
    return {path: 1 + 0.1 * torch.randn(shape, generator=g) if len(shape) == 1 else std * torch.randn(shape, generator=g)
            for path, shape in shapes(spec).items()}


def rope_frequencies(head_dim, theta, scaling, dtype):
    f = 1.0 / theta ** (torch.arange(0, head_dim, 2).to(dtype) / head_dim)
    if scaling is None:
        return f
    wavelength = 2 * math.pi / f
    blend = (scaling.original_seq / wavelength - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor)
    blend = blend.clamp(0, 1)  # 0: long wave, divided; 1: short wave, kept
    return (1 - blend) * f / scaling.factor + blend * f


def rope_tables(positions, head_dim, theta, scaling, dtype):
    """cos and sin, [positions, head_dim / 2], of the angles computed in `dtype`."""
    angle = torch.outer(positions.to(dtype), rope_frequencies(head_dim, theta, scaling, dtype))
    return torch.cos(angle), torch.sin(angle)


def apply_rope(x, cos, sin):
    """x: [B, T, H, D]; rotates the pairs (2i, 2i + 1). bf16 is rotated in fp32 and rounded once."""
    wide = torch.promote_types(x.dtype, torch.float32)
    pairs = x.to(wide).unflatten(-1, (-1, 2))
    a, b = pairs[..., 0], pairs[..., 1]
    c, s = cos.to(wide)[None, :, None], sin.to(wide)[None, :, None]
    return torch.stack((a * c - b * s, a * s + b * c), -1).flatten(-2).to(x.dtype)


def attention(q, k, v):
    """Causal grouped-query attention; q: [B, T, H, D], k and v: [B, T, Hkv, D]; scale 1 / sqrt(D)."""
    group = q.shape[2] // k.shape[2]
    k, v = k.repeat_interleave(group, 2), v.repeat_interleave(group, 2)
    return F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True).transpose(1, 2)


def forward(w, tokens, spec):
    """Logits [B, T, V] of tokens [B, T]."""
    batch, seq = tokens.shape
    cos, sin = rope_tables(torch.arange(seq), spec.head_dim, spec.rope_theta, spec.scaling, spec.tables)
    norm = lambda x, weight: F.rms_norm(x, (spec.dim,), weight, spec.norm_eps)  # noqa: E731
    h = F.embedding(tokens, w["embed.table"])
    for n in range(spec.layers):
        p = {name: w[f"layers.{n}.{name}"] for name in ("attn.norm", "attn.wq", "attn.wk", "attn.wv", "attn.wo", "ffn.norm",
                                                       "ffn.w1", "ffn.w3", "ffn.w2")}
        x = norm(h, p["attn.norm"])
        q, k, v = (F.linear(x, p["attn." + m]).unflatten(-1, (-1, spec.head_dim)) for m in ("wq", "wk", "wv"))
        o = attention(apply_rope(q, cos, sin), apply_rope(k, cos, sin), v)
        h = h + F.linear(o.reshape(batch, seq, spec.dim), p["attn.wo"])
        x = norm(h, p["ffn.norm"])
        h = h + F.linear(F.silu(F.linear(x, p["ffn.w1"])) * F.linear(x, p["ffn.w3"]), p["ffn.w2"])
    return F.linear(norm(h, w["head.norm"]), w["embed.table" if spec.tied else "head.weight"])


def mean_loss(w, sequences, spec):
    """Mean cross entropy, at least fp32, of sequences [B, T + 1]."""
    logits = forward(w, sequences[:, :-1], spec)
    return F.cross_entropy(logits.flatten(0, 1).to(torch.promote_types(logits.dtype, torch.float32)), sequences[:, 1:].flatten())
