"""hugging_face/ and hugging_face.h5: models as `save_pretrained` of transformers writes them, and their logits.

`plain`: fp32, in several files. `tied`: bf16, one file, tied embeddings, Llama 3.1's scaling. `half`: fp16. Logits are computed in fp32 from the
weights as they are stored."""
import pathlib
import shutil

import torch
from transformers import LlamaForCausalLM

from golden_file import write
from llama import Scaling, Spec
from make_transformers import build

MODELS = {
    "plain": (Spec(dim=24, layers=2, heads=4, kv_heads=2, ffn=40, vocab=61, rope_theta=10000.0), torch.float32, "20KB", 51),
    "tied": (Spec(dim=32, layers=2, heads=2, kv_heads=1, ffn=48, vocab=53, rope_theta=500000.0, norm_eps=1e-6, tied=True,
                  scaling=Scaling(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_seq=64)), torch.bfloat16, "5GB", 52),
    "half": (Spec(dim=16, layers=1, heads=2, kv_heads=2, ffn=24, vocab=31, rope_theta=10000.0), torch.float16, "5GB", 53),
}


def make(f):
    torch.set_num_threads(1)
    root = pathlib.Path(__file__).with_name("hugging_face")
    shutil.rmtree(root, ignore_errors=True)
    for name, (spec, dtype, shard_size, seed) in MODELS.items():
        model = build(spec, seed).to(dtype)
        model.save_pretrained(root / name, max_shard_size=shard_size)
        (root / name / "generation_config.json").unlink(missing_ok=True)
        tokens = torch.randint(0, spec.vocab, (1, 27), generator=torch.Generator().manual_seed(seed + 1))
        with torch.no_grad():
            logits = LlamaForCausalLM.from_pretrained(root / name, dtype=torch.float32)(tokens).logits
        write(f, f"{name}/tokens", tokens)
        write(f, f"{name}/logits", logits)
