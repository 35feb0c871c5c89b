"""Trains a Llama on random tokens with PyTorch on the CPU (gloo) or on one GPU, and prints one JSON line: a peer for Weft's bench decks.

    torchrun --nproc-per-node 2 torch_llama.py --mode fsdp2c --dtype bf16

Modes: single; ddp; fsdp2; simplefsdp (torchtitan's, compiled, with its manual bucket plan: a bucket a block); pipe (a stage of the layers a
rank, torch.distributed.pipelining's 1F1B, --microbatches of all ranks' sequences); tensor (tensor parallel over all ranks by DTensors as in
torchtitan: residuals cut along the sequence, the logits and their loss over the vocabulary; each rank works on the sequences of all). A c at
the end compiles the blocks. On a GPU: single and singlec; rss_mib is then the device memory that tensors took at most. tok_s counts the
tokens of all ranks in the median step; a step is the slowest rank's."""
import argparse
import json
import os
import resource
import statistics
import time
from contextlib import nullcontext

import torch
import torch.distributed as dist
import torch.nn.functional as F

from llama import Llama, Shape

MODES = ("single", "singlec", "ddp", "ddpc", "fsdp2", "fsdp2c", "simplefsdp", "pipe", "pipec", "tensor", "tensorc")


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--mode", default="fsdp2", choices=MODES)
    p.add_argument("--dtype", default="fp32", choices=("fp32", "bf16"), help="of parameters and activations; the master is fp32")
    p.add_argument("--reduce", default="fp32", choices=("fp32", "bf16"), help="of gradients on the wire")
    p.add_argument("--reshard", type=int, default=1, help="fsdp2: 1 gathers again in the backward pass")
    p.add_argument("--steps", type=int, default=12)
    p.add_argument("--skip", type=int, default=3, help="first steps that do not count (compilation, caches)")
    p.add_argument("--batch", type=int, default=4, help="sequences a rank")
    p.add_argument("--microbatches", type=int, default=8, help="of a step, in a pipe")
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    p.add_argument("--tied", type=int, default=0, choices=(0, 1), help="1: the head has the embedding's weights")
    for name in ("dim", "layers", "heads", "kv_heads", "ffn", "vocab", "seq"):
        p.add_argument("--" + name, type=int, default=getattr(Shape, name))
    a = p.parse_args()
    if a.steps <= a.skip:
        p.error(f"--steps {a.steps} leaves nothing to measure after --skip {a.skip}")
    if a.tied and a.mode in ("pipe", "pipec", "tensor", "tensorc"):
        p.error(f"--tied 1: --mode {a.mode} has a head of its own; take another mode, or --tied 0")
    return a


def with_ddp(model, wire):
    model = torch.nn.parallel.DistributedDataParallel(model)
    if wire == torch.bfloat16:
        from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook
        model.register_comm_hook(None, bf16_compress_hook)
    return model


def with_fsdp2(model, low_precision, wire, reshard, mesh=None):
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    # Layers get activations in bf16 as it is. A cast of their inputs would round RoPE's tables, too, which torchtitan's complex ones escape.
    policy = MixedPrecisionPolicy(torch.bfloat16, wire, cast_forward_inputs=False) if low_precision else MixedPrecisionPolicy()
    for layer in model.layers:
        fully_shard(layer, mesh=mesh, mp_policy=policy, reshard_after_forward=reshard)
    return fully_shard(model, mesh=mesh, mp_policy=policy)


def with_simplefsdp(model, low_precision, wire, ranks):
    import torch._inductor.config as inductor
    from torch._inductor.fx_passes.overlap_manual_scheduling import manual_overlap_bucketing
    from torch.distributed.device_mesh import init_device_mesh
    from torchtitan.experiments.graph_trainer.simple_fsdp import MixedPrecisionPolicy, data_parallel
    plan = ["embed"] + [f"layers.{i}" for i in range(len(model.layers))] + ["head"]
    inductor.allow_buffer_reuse = inductor.reorder_for_peak_memory = inductor.reorder_for_compute_comm_overlap = False
    inductor.post_grad_custom_post_pass = lambda graph: manual_overlap_bucketing(
        graph.owning_module, module_bucket_plans=plan, insert_overlap_deps=False)
    policy = MixedPrecisionPolicy(torch.bfloat16, wire) if low_precision else MixedPrecisionPolicy()
    return torch.compile(data_parallel(model, init_device_mesh("cpu", (ranks,)), "fully_shard", policy), fullgraph=True)


def cut_tensors(model, mesh, compiled=False):
    """torchtitan's plan for Llama, with sequence and loss parallelism, on a model or a stage of one. Norms gather the sequence for what follows."""
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import ColwiseParallel, PrepareModuleOutput, RowwiseParallel, SequenceParallel, parallelize_module
    gather = PrepareModuleOutput(output_layouts=Shard(1), desired_output_layouts=Replicate(), use_local_output=False)
    rows = lambda: RowwiseParallel(output_layouts=Shard(1))
    for layer in model.layers:
        plan = {"attn.norm": SequenceParallel(), "ffn.norm": SequenceParallel(), "attn.wo": rows(), "ffn.w2": rows()}
        parallelize_module(layer, mesh, plan | {w: ColwiseParallel() for w in ("attn.wq", "attn.wk", "attn.wv", "ffn.w1", "ffn.w3")})
        parallelize_module(layer, mesh, {"attn.norm": gather, "ffn.norm": gather})
        if compiled:
            layer.compile()
    if model.embed:
        parallelize_module(model.embed, mesh, {"table": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1))})
        if compiled:  # a compiled block cannot take what a collective has not finished yet; a copy waits for it
            model.embed.register_forward_hook(lambda _module, _tokens, h: h.clone())
    if model.head:
        parallelize_module(model.head, mesh, {"norm": SequenceParallel(), "weight": ColwiseParallel(
            input_layouts=Shard(1), output_layouts=Shard(-1), use_local_output=False)})
    return model


def with_tensor(model, low_precision, wire, ranks, compiled):
    """As in torchtitan, FSDP2 over a data axis of one rank is what casts to bf16."""
    from torch.distributed.device_mesh import init_device_mesh
    mesh = init_device_mesh("cpu", (1, ranks), mesh_dim_names=("data", "tensor"))
    cut_tensors(model, mesh["tensor"], compiled)
    return with_fsdp2(model, True, wire, False, mesh["data"]) if low_precision else model


def clip(parameters, limit, over_stages=None):
    """Clips gradients by the norm of the whole gradient, and gives it. DTensors know what other ranks hold, but for other stages of a pipe."""
    for p in parameters:  # tensor parallelism leaves gradients of norms as parts to be added, and that of the embedding whole on each rank
        if hasattr(p, "placements") and p.grad.placements != p.placements:
            p.grad = p.grad.redistribute(placements=p.placements)
    norm = torch.nn.utils.get_total_norm([p.grad for p in parameters])
    norm = norm.full_tensor() if hasattr(norm, "full_tensor") else norm
    if over_stages:
        square = norm.square()
        dist.all_reduce(square, group=over_stages)
        norm = square.sqrt()
    torch.nn.utils.clip_grads_with_norm_(parameters, limit, norm)
    return norm


def parallel(model, a, ranks):
    low_precision, wire = a.dtype == "bf16", torch.bfloat16 if a.reduce == "bf16" else torch.float32
    if a.mode in ("singlec", "ddpc", "fsdp2c", "pipec"):
        for layer in model.layers:
            layer.compile()
    if a.mode in ("ddp", "ddpc"):
        return with_ddp(model, wire)
    if a.mode in ("fsdp2", "fsdp2c"):
        return with_fsdp2(model, low_precision, wire, bool(a.reshard))
    if a.mode == "simplefsdp":
        return with_simplefsdp(model, low_precision, wire, ranks)
    if a.mode in ("tensor", "tensorc"):
        return with_tensor(model, low_precision, wire, ranks, a.mode == "tensorc")
    return model


def mean_loss(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def train(model, a, rank, ranks):
    """Trains; gives losses and seconds of each step on this rank."""
    from torch.distributed.tensor.parallel import loss_parallel
    tensor = a.mode in ("tensor", "tensorc")
    # FSDP casts parameters itself; DDP and a single process take PyTorch's usual way, autocast.
    cast = torch.autocast(a.device, torch.bfloat16) if a.dtype == "bf16" and "fsdp" not in a.mode and not tensor else nullcontext()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    g = torch.Generator().manual_seed(1234 + (0 if tensor else rank))
    loss_of = torch.compile(mean_loss) if a.device == "cuda" and a.mode == "singlec" else mean_loss
    losses, seconds = [], []
    for _ in range(a.steps):
        x = torch.randint(0, a.vocab, (a.batch * (ranks if tensor else 1), a.seq + 1), generator=g)
        start = time.perf_counter()
        x = x.to(a.device)
        with cast:
            logits = model(x[:, :-1])
        with loss_parallel() if tensor else nullcontext():
            loss = loss_of(logits, x[:, 1:])
            loss.backward()
        clip(list(model.parameters()), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        seconds.append(time.perf_counter() - start)
    return losses, seconds


class Stage(torch.nn.Module):
    """The layers that one rank of a pipe has: as many as the others; the first also has the embedding, the last the head."""

    def __init__(self, model, rank, ranks):
        super().__init__()
        each = -(-len(model.layers) // ranks)
        self.embed = model.embed if rank == 0 else None
        self.layers = model.layers[rank * each:(rank + 1) * each]
        self.head = model.head if rank == ranks - 1 else None
        self.register_buffer("cos", model.cos, persistent=False)
        self.register_buffer("sin", model.sin, persistent=False)

    def forward(self, x):
        h = x if self.embed is None else self.embed(x)
        for layer in self.layers:
            h = layer(h, self.cos, self.sin)
        return h if self.head is None else self.head(h, None)


def train_pipe(model, a, rank, ranks):
    """Trains a pipe; gives losses (of the last rank) and seconds of each step."""
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B
    module = Stage(model, rank, ranks)
    schedule = Schedule1F1B(PipelineStage(module, rank, ranks, torch.device("cpu")), a.microbatches,
                            loss_fn=lambda logits, y: F.cross_entropy(logits.flatten(0, 1).float(), y.flatten()))
    cast = torch.autocast(a.device, torch.bfloat16) if a.dtype == "bf16" else nullcontext()
    optimizer = torch.optim.AdamW(module.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    g = torch.Generator().manual_seed(1234)
    losses, seconds = [], []
    for _ in range(a.steps):
        x = torch.randint(0, a.vocab, (ranks * a.batch, a.seq + 1), generator=g)
        start, of_step = time.perf_counter(), []
        with cast:
            if rank == 0:
                schedule.step(x[:, :-1].contiguous())
            elif rank == ranks - 1:
                schedule.step(target=x[:, 1:].contiguous(), losses=of_step)
            else:
                schedule.step()
        clip(list(module.parameters()), 1.0, dist.group.WORLD)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(sum(loss.item() for loss in of_step) / max(1, len(of_step)))
        seconds.append(time.perf_counter() - start)
    return losses, seconds


def main():
    a = arguments()
    torch.set_num_threads(a.threads)
    torch.manual_seed(0)
    ranks, rank = int(os.environ.get("WORLD_SIZE", 1)), int(os.environ.get("RANK", 0))
    if ranks > 1:
        dist.init_process_group("gloo")
    elif not a.mode.startswith("single"):
        raise SystemExit(f"--mode {a.mode} needs torchrun with two ranks or more; alone, use --mode single")
    with torch.device(a.device):
        model = Llama(Shape(**{k: getattr(a, k) for k in ("dim", "layers", "heads", "kv_heads", "ffn", "vocab", "seq")}, tied=bool(a.tied)))
    parameters = sum(p.numel() for p in model.parameters())
    if a.mode in ("pipe", "pipec"):
        losses, seconds = train_pipe(parallel(model, a, ranks), a, rank, ranks)
    else:
        losses, seconds = train(parallel(model, a, ranks), a, rank, ranks)
    memory = torch.cuda.max_memory_allocated() / 2**20 if a.device == "cuda" else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    worst = torch.tensor(seconds[a.skip:] + [memory], dtype=torch.float64)
    if ranks > 1:
        dist.all_reduce(worst, dist.ReduceOp.MAX)
    steps = worst[:-1].tolist()
    if rank == 0:
        step = statistics.median(steps)
        print(json.dumps(dict(mode=a.mode, dtype=a.dtype, reduce=a.reduce, ranks=ranks, params=parameters, step_s=round(step, 4),
                              step_min_s=round(min(steps), 4), step_max_s=round(max(steps), 4),
                              tok_s=round(ranks * a.batch * a.seq / step, 1), rss_mib=round(worst[-1].item()),
                              loss_first=losses[0], loss_last=losses[-1])), flush=True)
    if ranks > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
