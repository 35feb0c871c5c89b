"""Bytes that PyTorch's cross entropy takes for each logit at its peak, on the CPU, as a trainer computes it: bf16 logits, cast to fp32.

    logit_bytes.py [TOKENS] [VOCABULARY]

Peaks of the process, forward alone and with backward. perf/published.py adds the difference to Weft's memory."""
import resource
import sys

import torch
import torch.nn.functional as F

tokens = int(sys.argv[1]) if len(sys.argv) > 1 else 1024
vocabulary = int(sys.argv[2]) if len(sys.argv) > 2 else 128256


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


hidden = torch.randn(tokens, 64, dtype=torch.bfloat16, requires_grad=True)
head = torch.randn(vocabulary, 64, dtype=torch.bfloat16, requires_grad=True)
targets = torch.randint(vocabulary, (tokens,))
(hidden[:2] @ head.t()).float().sum().backward()  # libraries and gradients are there
before = peak()
logits = hidden @ head.t()
loss = F.cross_entropy(logits.float(), targets)
del logits
forward = peak()
loss.backward()
count = tokens * vocabulary
print(f"bytes a logit: {(forward - before) / count:.1f} forward, {(peak() - before) / count:.1f} with backward")
