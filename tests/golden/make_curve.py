"""curve.h5: twenty training steps of a small Llama with AdamW, and how far PyTorch is from itself and from wrong hyperparameters."""
from dataclasses import asdict, dataclass

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from golden_file import write, write_attributes
from llama import Scaling, Spec, mean_loss, random_weights, replace


@dataclass(frozen=True)
class Training:
    """warmup: lr (s + 1) / warmup for the steps s < warmup, then lr. eps is large enough, lr high enough, that a wrong one shows."""
    steps: int = 20
    batch: int = 4
    seq: int = 48
    lr: float = 3e-3
    warmup: int = 5
    beta1: float = 0.9
    beta2: float = 0.95
    eps: float = 5e-5
    weight_decay: float = 0.1
    clip: float = 1.0


NO_CLIP = 1e30
UNTIED = Spec(dim=64, layers=3, heads=4, kv_heads=2, ffn=176, vocab=300)
TIED = Spec(dim=32, layers=2, heads=4, kv_heads=1, ffn=72, vocab=160, rope_theta=10000.0, tied=True,
            scaling=Scaling(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_seq=128))  # the second of four frequencies is blended
WRONG = {"adam_eps": (dict(), dict(eps=1e-8)), "norm_eps": (dict(norm_eps=1e-6), dict()),
         "no_decay": (dict(), dict(weight_decay=0.0)), "no_clip": (dict(), dict(clip=NO_CLIP)),
         "rope_theta": (dict(rope_theta=50000.0), dict())}


def sequences(spec, training, seed):
    """A noisy walk over the vocabulary that can be learnt: [steps, batch, seq + 1]."""
    g = torch.Generator().manual_seed(seed)
    out = torch.randint(0, spec.vocab, (training.steps, training.batch, training.seq + 1), generator=g)
    follows = torch.rand(out.shape, generator=g) < 0.8
    for t in range(1, training.seq + 1):
        out[..., t] = torch.where(follows[..., t], (3 * out[..., t - 1] + 1) % (spec.vocab // 4), out[..., t])
    return out


def train(spec, training, initial, data, dtype, microbatch, weights_dtype=None):
    """Losses, gradient norms before clipping, final weights. bf16 is FSDP2's way: bf16 copies of fp32 weights, bf16 gradients
    widened to fp32 before they are summed over microbatches, clipped and given to AdamW. With weights_dtype the copies are
    rounded to that, and all else stays in dtype."""
    master_dtype = torch.promote_types(dtype, torch.float32)
    master = {k: v.clone().to(master_dtype).requires_grad_() for k, v in initial.items()}
    opt = torch.optim.AdamW(master.values(), lr=training.lr, betas=(training.beta1, training.beta2), eps=training.eps,
                            weight_decay=training.weight_decay)
    losses, norms = [], []
    for s in range(training.steps):
        total = 0.0
        opt.zero_grad()
        for part in data[s].split(microbatch):
            copy = {k: v.detach().clone().to(weights_dtype or dtype).to(dtype).requires_grad_() for k, v in master.items()}
            loss = mean_loss(copy, part, spec) * (microbatch / training.batch)
            loss.backward()
            total += loss.item()
            for k, v in master.items():
                grad = copy[k].grad.to(master_dtype)
                v.grad = grad if v.grad is None else v.grad + grad
        norms.append(torch.nn.utils.clip_grad_norm_(master.values(), training.clip).item())
        opt.param_groups[0]["lr"] = training.lr * min(1.0, (s + 1) / training.warmup)
        opt.step()
        losses.append(total)
    final = {k: v.detach().double() for k, v in master.items()}
    return torch.tensor(losses, dtype=torch.float64), torch.tensor(norms, dtype=torch.float64), final


def distances(a, b):
    """Largest relative difference of the losses, of the norms, and of a final tensor (to its norm)."""
    parameter = max(((a[2][k] - b[2][k]).norm() / b[2][k].norm()).item() for k in b[2])
    return dict(loss_distance=((a[0] - b[0]).abs() / b[0]).max().item(), grad_norm_distance=((a[1] - b[1]).abs() / b[1]).max().item(),
                parameter_distance=parameter)


def write_setting(f, name, spec, training, initial, data):
    write_attributes(f.create_group(name), asdict(training) | {k: v for k, v in asdict(spec).items() if k not in ("scaling", "tables")})
    if spec.scaling:
        write_attributes(f[name], {"rope_scaling_" + k: v for k, v in asdict(spec.scaling).items()})
    write(f, f"{name}/tokens", data)
    for key, value in initial.items():
        write(f, f"{name}/initial/{key}", value)


def write_variant(f, path, result, right):
    write(f, f"{path}/loss", result[0])
    write(f, f"{path}/grad_norm", result[1])
    found = distances(result, right)
    write_attributes(f[path], found)
    print(f"{path:32s}", " ".join(f"{k} {v:.2e}" for k, v in found.items()))


def add_curve(f, name, spec, training, seed, std):
    initial, data = random_weights(spec, seed, std), sequences(spec, training, seed + 1)

    def run(spec=spec, training=training, dtype=torch.float32, microbatch=training.batch):
        return train(spec, training, initial, data, dtype, microbatch)

    def add_variant(path, result):
        write_variant(f, f"{name}/{path}", result, right)

    torch.set_num_threads(1)
    right = run()
    write_setting(f, name, spec, training, initial, data)
    for key, value in right[2].items():
        write(f, f"{name}/final/{key}", value.float())
    print(name, [round(x, 3) for x in right[0].tolist()], [round(x, 3) for x in right[1].tolist()], sep="\n  ")
    add_variant("f32", right)
    add_variant("f64", run(dtype=torch.float64))
    add_variant("rope_tables_f64", run(spec=replace(spec, tables=torch.float64)))
    add_variant("microbatches", run(microbatch=1))
    torch.set_num_threads(2)
    add_variant("threads_2", run())
    torch.set_num_threads(1)
    for wrong, (model, optimizer) in WRONG.items():
        add_variant("wrong/" + wrong, run(spec=replace(spec, **model), training=replace(training, **optimizer)))
    if spec.scaling:
        add_variant("wrong/no_rope_scaling", run(spec=replace(spec, scaling=None)))


def add_bf16_curve(f, name, spec, training, weights_of, seed):
    """PyTorch's bf16 and fp32 on one draw of tokens. Rounding is noise that the trajectory amplifies, so that equally good bf16 runs
    stand at distances from fp32 that differ by a factor: two kinds of attention with three microbatches each."""
    initial = {k: torch.from_numpy(v[()]) for k, v in f[f"{weights_of}/initial"].items()}
    data = sequences(spec, training, seed)
    torch.set_num_threads(1)
    right = train(spec, training, initial, data, torch.float32, training.batch)
    write_setting(f, name, spec, training, {}, data)
    f[f"{name}/initial"] = f[f"{weights_of}/initial"]  # a link
    write_variant(f, f"{name}/f32", right, right)
    for microbatch in (4, 2, 1):
        for attention in (SDPBackend.FLASH_ATTENTION, SDPBackend.MATH):
            with sdpa_kernel(attention):
                result = train(spec, training, initial, data, torch.bfloat16, microbatch)
            write_variant(f, f"{name}/bf16/{attention.name.lower()}_{microbatch}", result, right)
    # How much of it the rounding of the weights is, which bf16 parameters have in any implementation.
    rounded = train(spec, training, initial, data, torch.float32, training.batch, weights_dtype=torch.bfloat16)
    write_variant(f, f"{name}/bf16_weights", rounded, right)


def make(f):
    add_curve(f, "untied", UNTIED, Training(clip=2.3), seed=11, std=0.06)
    add_curve(f, "tied", TIED, Training(clip=1.5), seed=21, std=0.06)
    for i in range(12):
        add_bf16_curve(f, f"bf16/untied{i}", UNTIED, Training(clip=2.3), weights_of="untied", seed=100 + i)
        add_bf16_curve(f, f"bf16/tied{i}", TIED, Training(clip=1.5), weights_of="tied", seed=200 + i)
