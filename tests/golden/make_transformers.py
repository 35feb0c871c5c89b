"""transformers.h5: logits and gradients of Hugging Face's LlamaForCausalLM for random weights.

transformers rotates the pairs (i, i + D / 2) of a head; Weft, as Meta, the pairs (2 i, 2 i + 1). Row 2 i + j of a head in Weft is row
i + j D / 2 in transformers. wq, wk and their gradients are stored here in Weft's order; nothing else differs."""
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from golden_file import write, write_attributes
from llama import Scaling, Spec, forward, shapes

NAMES = {"attn.norm": "input_layernorm", "attn.wq": "self_attn.q_proj", "attn.wk": "self_attn.k_proj", "attn.wv": "self_attn.v_proj",
         "attn.wo": "self_attn.o_proj", "ffn.norm": "post_attention_layernorm", "ffn.w1": "mlp.gate_proj", "ffn.w3": "mlp.up_proj",
         "ffn.w2": "mlp.down_proj"}
GLOBAL = {"embed.table": "model.embed_tokens.weight", "head.norm": "model.norm.weight", "head.weight": "lm_head.weight"}


def interleaved(rows, heads):
    """transformers' order of the rows of wq or wk -> Weft's."""
    return rows.unflatten(0, (heads, 2, -1)).transpose(1, 2).flatten(0, 2)


def in_weft_order(path, value, spec):
    heads = {"attn.wq": spec.heads, "attn.wk": spec.kv_heads}.get(path.split(".", 2)[-1])
    return interleaved(value, heads) if heads else value


def hugging_face_name(path):
    if path in GLOBAL:
        return GLOBAL[path]
    _, n, name = path.split(".", 2)
    return f"model.layers.{n}.{NAMES[name]}.weight"


def build(spec, seed):
    rope = {"rope_theta": spec.rope_theta, "rope_type": "default"}
    if spec.scaling:
        rope |= {"rope_type": "llama3", "factor": spec.scaling.factor, "low_freq_factor": spec.scaling.low_freq_factor,
                 "high_freq_factor": spec.scaling.high_freq_factor, "original_max_position_embeddings": spec.scaling.original_seq}
    config = LlamaConfig(vocab_size=spec.vocab, hidden_size=spec.dim, intermediate_size=spec.ffn, num_hidden_layers=spec.layers,
                         num_attention_heads=spec.heads, num_key_value_heads=spec.kv_heads, rms_norm_eps=spec.norm_eps,
                         tie_word_embeddings=spec.tied, max_position_embeddings=4096, rope_parameters=rope)
    model = LlamaForCausalLM(config)
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(1 + 0.2 * torch.randn(p.shape, generator=g) if p.dim() == 1 else 0.15 * torch.randn(p.shape, generator=g))
    return model


def add_model(f, name, spec, seed, batch=2, seq=27):
    model = build(spec, seed)
    tokens = torch.randint(0, spec.vocab, (batch, seq + 1), generator=torch.Generator().manual_seed(seed + 1))
    logits = model(tokens[:, :-1]).logits
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
    loss.backward()
    weights = dict(model.named_parameters())
    write(f, f"{name}/tokens", tokens)
    write(f, f"{name}/logits", logits)
    ours = {}
    for path in shapes(spec):
        p = weights[hugging_face_name(path)]
        ours[path] = in_weft_order(path, p.detach(), spec)
        write(f, f"{name}/weights/{path}", ours[path])
        write(f, f"{name}/gradients/{path}", in_weft_order(path, p.grad, spec))
    values = dict(dim=spec.dim, layers=spec.layers, heads=spec.heads, kv_heads=spec.kv_heads, ffn=spec.ffn, vocab=spec.vocab,
                  rope_theta=spec.rope_theta, norm_eps=spec.norm_eps, tied=spec.tied, batch=batch, seq=seq, loss=loss.item())
    if spec.scaling:
        values |= {"rope_scaling_" + k: v for k, v in vars(spec.scaling).items()}
    write_attributes(f[name], values)
    # Two independent PyTorch models agree, so the stored order of rows is right.
    distance = ((forward(ours, tokens[:, :-1], spec) - logits).abs().max() / logits.abs().max()).item()
    write_attributes(f[name], dict(logits_distance=distance))
    print(f"{name}: loss {loss.item():.4f}, distance from llama.py {distance:.1e}")
    assert distance < 1e-5, "the RoPE order, or llama.py, is wrong"


def make(f):
    torch.set_num_threads(1)
    add_model(f, "gqa", Spec(dim=24, layers=2, heads=4, kv_heads=2, ffn=40, vocab=61, rope_theta=10000.0), seed=31)
    add_model(f, "scaled_tied", Spec(dim=32, layers=2, heads=2, kv_heads=1, ffn=48, vocab=53, rope_theta=500000.0, norm_eps=1e-6, tied=True,
                                     # Pairs below, inside (the wave of 32 tokens) and above the blended range of 16 to 64.
                                     scaling=Scaling(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_seq=64)), seed=41)
