"""The Llama of the peers: plain PyTorch modules. `weft_path` of a parameter's name is the module path that Weft uses."""
import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass(frozen=True)
class Shape:
    dim: int = 512
    layers: int = 8
    heads: int = 8
    kv_heads: int = 4
    ffn: int = 1536
    vocab: int = 8192
    seq: int = 512
    rope_theta: float = 500000.0
    norm_eps: float = 1e-5
    tied: bool = False
    rope_scaling: dict | None = None  # factor, low_freq_factor, high_freq_factor, original_max_position

    @property
    def head_dim(self):
        return self.dim // self.heads


def rope_tables(shape):
    """cos and sin, [seq, head_dim / 2], as Meta computes them: in fp32, with Llama 3.1's scaling if the shape has it."""
    f = 1.0 / shape.rope_theta ** (torch.arange(0, shape.head_dim, 2).float() / shape.head_dim)
    if shape.rope_scaling:
        s = shape.rope_scaling
        low, high = s["low_freq_factor"], s["high_freq_factor"]
        blend = ((s["original_max_position"] * f / (2 * math.pi) - low) / (high - low)).clamp(0, 1)
        f = (1 - blend) * f / s["factor"] + blend * f
    angle = torch.outer(torch.arange(shape.seq).float(), f)
    return torch.cos(angle), torch.sin(angle)


def apply_rope(x, cos, sin):
    """Rotates the pairs (2i, 2i + 1) of x [B, T, H, D] in fp32."""
    a, b = x.float().unflatten(-1, (-1, 2)).unbind(-1)
    c, s = cos[None, :, None], sin[None, :, None]
    return torch.stack((a * c - b * s, a * s + b * c), -1).flatten(-2).type_as(x)


class RMSNorm(nn.Module):
    def __init__(self, dim, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(dim)), eps

    def forward(self, x):
        return F.rms_norm(x, (x.shape[-1],), self.weight, self.eps)


def matrix(inner, outer):
    return nn.Linear(inner, outer, bias=False)


class Attention(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.head_dim, self.group = s.head_dim, s.heads // s.kv_heads
        self.norm = RMSNorm(s.dim, s.norm_eps)
        self.wq, self.wo = matrix(s.dim, s.dim), matrix(s.dim, s.dim)
        self.wk, self.wv = (matrix(s.dim, s.kv_heads * s.head_dim) for _ in range(2))

    def forward(self, h, cos, sin):
        x = self.norm(h)
        q, k, v = (w(x).unflatten(-1, (-1, self.head_dim)) for w in (self.wq, self.wk, self.wv))
        q, k = apply_rope(q, cos, sin), apply_rope(k, cos, sin)
        k, v = k.repeat_interleave(self.group, 2), v.repeat_interleave(self.group, 2)
        o = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True)
        return h + self.wo(o.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.norm = RMSNorm(s.dim, s.norm_eps)
        self.w1, self.w3, self.w2 = matrix(s.dim, s.ffn), matrix(s.dim, s.ffn), matrix(s.ffn, s.dim)

    def forward(self, h):
        x = self.norm(h)
        return h + self.w2(F.silu(self.w1(x)) * self.w3(x))


class Block(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.attn, self.ffn = Attention(s), FeedForward(s)

    def forward(self, h, cos, sin):
        return self.ffn(self.attn(h, cos, sin))


class Embed(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.table = nn.Embedding(s.vocab, s.dim)

    def forward(self, tokens):
        return self.table(tokens)


class Head(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.norm = RMSNorm(s.dim, s.norm_eps)
        if not s.tied:
            self.weight = matrix(s.dim, s.vocab)

    def forward(self, h, table):
        x = self.norm(h)
        return self.weight(x) if table is None else F.linear(x, table)


class Llama(nn.Module):
    """Tokens [B, T] -> logits [B, T, V]."""

    def __init__(self, s):
        super().__init__()
        self.tied = s.tied
        self.embed, self.head = Embed(s), Head(s)
        self.layers = nn.ModuleList(Block(s) for _ in range(s.layers))
        for name, table in zip(("cos", "sin"), rope_tables(s)):
            self.register_buffer(name, table, persistent=False)

    def forward(self, tokens):
        h = self.embed(tokens)
        cos, sin = self.cos[: tokens.shape[1]], self.sin[: tokens.shape[1]]
        for layer in self.layers:
            h = layer(h, cos, sin)
        return self.head(h, self.embed.table.weight if self.tied else None)


def weft_path(parameter_name):
    return parameter_name.removesuffix(".weight")
