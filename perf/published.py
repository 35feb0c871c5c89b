#!/usr/bin/env python3
"""What `weft plan` predicts beside what others published, as a table:

  perf/published.py [WORD...] [--command]

Each row is a run that somebody published, with its settings as far as they are stated: model, sequences, mesh, recomputation,
Float8, machine. Nothing is measured here. No setting was chosen by its result but the chunks of Llama 3's three rows (docs/results.md).
WORD: only rows whose name has it. --command: the command of each row, too. Ends with the errors by groups of rows: what the goal names are
8B in bf16, 70B in Float8, 405B with sequences of 8,192, and Llama 3's. The exit status is 1 when a row has no prediction.

Sources
  titan     torchtitan, benchmarks/llama3_h100_202412_torchtitan.md, tables 1 to 6 (8B, 70B and 405B on H100 with HBM2e at 500 W)
  async     torchtitan, benchmarks/asyncTP_llama3_h100_2025-06_torchtitan.md, its first picture (70B on the same machines)
  h200      torchtitan, benchmarks/llama3_8b_h200_2025-06_torchtitan.md
  a100      torchtitan's figures on A100 of 80 GB
  fms       IBM's fms-fsdp, README.md of 2024 (Llama 2's shapes, sequences of 4,096, no torch.compile, A100)
  llama3    The Llama 3 Herd of Models (arXiv 2407.21783), table 4; shares of the peak

Settings that are torchtitan's, from its source of those months (parallelize_llama.py, parallelize and pipeline):
  - "selective" recomputes what is not a product or attention, and every second product of a layer: wk, wo and w3, which are 37 %
    of a layer's work in products for the 8B model. Weft's q, k and v are one product, gate and up another, so that rules
    stand here which recompute the same share: the products of attention (19 %), and those of ffn in 7 of 32 layers (18 %).
  - Attention's gradients may be added in any order, as PyTorch's are unless it is told otherwise. (Weft's own default, the same bits each time, keeps
    the gradients of a head's scores on Hopper: 2 GiB for rows of 32 K.)
  - A pipe has as many microbatches as stages, and keeps gathered parameters from forward.
  - Collectives of the tensor axis are hidden where they say AsyncTP, which all of its 405B are. Else nothing of Weft's hides them here. Of Llama 3's rows
    that is not known; they are planned as Weft would run them.
  - Logits exist for all tokens of a microbatch at once. PyTorch's cross entropy then takes 12 bytes a logit (perf/peers/logit_bytes.py,
    PyTorch 2.15: the logits in bf16 and fp32, their log-softmax and its gradient), Weft's 2. The column "+ logits" adds the difference.
    torchtitan of 2025 (h200) compiles its loss, and has no such copies.

What is predicted is Weft, not PyTorch: on one H100 Weft had 1.09 to 1.14 times its tokens at 8B's shape (docs/results.md, "On a GPU").
"""
import argparse, collections, os, re, shlex, statistics, subprocess, sys
from concurrent.futures import ThreadPoolExecutor

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WEFT = os.environ.get("WEFT", "build/cpu/weft")

TITAN = ["precision.head_rows=0", "precision.deterministic=false"]
SELECTIVE = ['schedule.recompute=selective', 'schedule.recompute_ops=["rms_norm", "swiglu", "rope_split", "matmul@layers.*.attn", "matmul@layers.0-6.ffn"]']
FULL = ["schedule.recompute=full"]
KEPT = ["schedule.regather=never"]
VANILLA = ["schedule.alternate=never", "schedule.disable=hoist"]
LOGIT_BYTES = 12 - 2


def float8(layers):
    """Float8 in all layers, as torchao's filter has it: only the head stays as it is."""
    return [f'precision.float8=["layers.0-{layers - 1}"]']


def mesh(**axes):
    return ["parallel.mesh={ " + ", ".join(f"{axis} = {ranks}" for axis, ranks in axes.items()) + " }"]


def batch(sequences, of_all, seq=None):
    return [f"data.batch={sequences}", f"data.global_batch={of_all}"] + ([f"data.seq={seq}"] if seq else [])


def llama2(dim, layers, heads, ffn, kv_heads=None):
    """A model of Llama 2's family on the deck of 8B."""
    return [f"model.dim={dim}", f"model.layers={layers}", f"model.heads={heads}", f"model.kv_heads={kv_heads or heads}", f"model.ffn={ffn}", "model.vocab=32000"]


class Row:
    def __init__(self, source, name, model, ranks, machine, published, memory, *settings, unit="tokens/s", loss="eager", group=None):
        self.group = group or {"titan": "the goal's", "llama3": "the goal's", "fms": "IBM's fms-fsdp"}.get(source, "others of torchtitan")
        self.source, self.name, self.published, self.memory, self.unit, self.loss = source, name, published, memory, unit, loss
        sets = [s for group in settings for s in group]
        self.sets = dict(s.split("=", 1) for s in sets)
        self.command = ["plan", f"inputs/llama3_{model}.toml", "--world", str(ranks), "--machine", machine, *(x for s in sets for x in ("--set", s))]

    def logits(self):
        """How many a rank has of a microbatch beside Weft's: 128,256 a token, cut over the tensor and the context axis."""
        if self.loss == "compiled":
            return 0
        axes = dict(re.findall(r"(\w+) = (\d+)", self.sets.get("parallel.mesh", "")))
        cut = int(axes.get("tensor", 1)) * int(axes.get("context", 1))
        return int(self.sets.get("data.batch", 1)) * int(self.sets.get("data.seq", 8192)) * 128256 / cut


def rows():
    h100, hbm2e = "h100", "h100-96"
    yield Row("titan", "8B, 8 ranks, eager", "8b", 8, hbm2e, 5762, 82.4, TITAN, SELECTIVE, batch(2, 16), group="the goal's, eager")
    yield Row("titan", "8B, 8 ranks", "8b", 8, hbm2e, 6667, 77.0, TITAN, SELECTIVE, batch(2, 16))
    yield Row("titan", "8B, 8 ranks, Float8", "8b", 8, hbm2e, 8532, 76.8, TITAN, SELECTIVE, batch(2, 16), float8(32), group="others of torchtitan")
    yield Row("titan", "8B, 128 ranks, eager", "8b", 128, hbm2e, 5605, 67.0, TITAN, SELECTIVE, batch(2, 256), group="the goal's, eager")
    yield Row("titan", "8B, 128 ranks", "8b", 128, hbm2e, 6514, 62.0, TITAN, SELECTIVE, batch(2, 256))
    yield Row("titan", "8B, 128 ranks, Float8", "8b", 128, hbm2e, 8380, 61.8, TITAN, SELECTIVE, batch(2, 256), float8(32), group="others of torchtitan")
    for context, seq, published, memory in ((1, 32768, 3890, 83.9), (2, 65536, 2540, 84.2), (4, 131072, 1071, 84.0), (8, 262144, 548, 84.5)):
        yield Row("titan", f"8B, 8 ranks, Float8, {seq // 1024} K, context {context}", "8b", 8, hbm2e, published, memory,
                  TITAN, FULL, batch(1, 8 // context, seq), mesh(data=8 // context, context=context), float8(32), group="long sequences of torchtitan")
    two = [*FULL, *batch(16, 512), *mesh(data=32, tensor=8)]
    yield Row("titan", "70B, 256 ranks, 32 x 8, Float8", "70b", 256, hbm2e, 829, 71.9, TITAN, two, VANILLA, float8(80))
    yield Row("titan", "70B, 256 ranks, 32 x 8, Float8, AsyncTP", "70b", 256, hbm2e, 876, 67.6, TITAN, two, float8(80))
    yield Row("async", "70B, 256 ranks, 32 x 8", "70b", 256, hbm2e, 597, None, TITAN, two, VANILLA)
    yield Row("async", "70B, 256 ranks, 32 x 8, AsyncTP", "70b", 256, hbm2e, 652, None, TITAN, two)
    yield Row("async", "70B, 256 ranks, 32 x 8, Float8", "70b", 256, hbm2e, 810, None, TITAN, two, VANILLA, float8(80))
    yield Row("async", "70B, 256 ranks, 32 x 8, Float8, AsyncTP", "70b", 256, hbm2e, 942, None, TITAN, two, float8(80))
    three = [*mesh(pipe=8, data=8, tensor=8), "parallel.mode=fsdp"]
    yield Row("titan", "405B, 512 ranks, 8 x 8 x 8, Float8, AsyncTP, 1f1b", "405b", 512, hbm2e, 100, 82.5, TITAN, FULL, KEPT, batch(4, 256), three, float8(126))
    yield Row("titan", "405B, 512 ranks, 8 x 8 x 8, Float8, AsyncTP, interleaved", "405b", 512, hbm2e, 128, 72.7, TITAN, FULL, KEPT, batch(4, 256), three,
              ["pipeline.schedule=interleaved", "pipeline.chunks=2"], float8(126))
    for context, seq, published, memory in ((1, 32768, 76, 75.3), (2, 65536, 47, 75.9), (4, 131072, 31, 77.1), (8, 262144, 16, 84.9)):
        yield Row("titan", f"405B, 512 ranks, Float8, AsyncTP, {seq // 1024} K, context {context}", "405b", 512, hbm2e, published, memory, TITAN, FULL, KEPT,
                  batch(1, 8 * 8 // context, seq), mesh(pipe=8, data=8 // context, context=context, tensor=8), ["parallel.mode=fsdp"], float8(126), group="long sequences of torchtitan")
    yield Row("h200", "8B, 32 ranks, Float8", "8b", 32, "h200", 10938, 47.96, TITAN, SELECTIVE, batch(2, 64), float8(32), loss="compiled")
    yield Row("h200", "8B, 64 ranks, Float8", "8b", 64, "h200", 10753, 46.97, TITAN, SELECTIVE, batch(2, 128), float8(32), loss="compiled")
    yield Row("a100", "8B, 64 ranks", "8b", 64, "a100", 2973, None, TITAN, SELECTIVE, batch(1, 64))
    yield Row("a100", "70B, 64 ranks", "70b", 64, "a100", 331, None, TITAN, FULL, batch(1, 64))
    hybrid = mesh(replica=16, data=8)
    none = ["schedule.recompute=none"]
    yield Row("fms", "Llama 2 7B, 128 ranks, replicas", "8b", 128, "a100", 3760, None, TITAN, none, llama2(4096, 32, 32, 11008), batch(2, 256, 4096), hybrid)
    yield Row("fms", "Llama 2 13B, 128 ranks, replicas", "8b", 128, "a100", 1700, None, TITAN, none, llama2(5120, 40, 40, 13824), batch(1, 128, 4096), hybrid)
    yield Row("fms", "Llama 2 34B, 128 ranks", "8b", 128, "a100", 772, None, TITAN, FULL, llama2(8192, 48, 64, 22016, 8), batch(8, 1024, 4096))
    yield Row("fms", "Llama 2 70B, 128 ranks", "8b", 128, "a100", 380, None, TITAN, FULL, llama2(8192, 80, 64, 28672, 8), batch(6, 768, 4096))
    chunks = [*none, "pipeline.schedule=interleaved", "pipeline.chunks=4"]
    yield Row("llama3", "405B, 8,192 ranks, 64 x 16 x 8", "405b", 8192, h100, 43, None, chunks, unit="MFU")
    yield Row("llama3", "405B, 16,384 ranks, 128 x 16 x 8", "405b", 16384, h100, 41, None, chunks, unit="MFU")
    yield Row("llama3", "405B, 16,384 ranks, 131 K, context 16", "405b", 16384, h100, 38, None, chunks, batch(1, 128, 131072),
              mesh(data=0, pipe=16, context=16, tensor=8), unit="MFU")


def predict(row):
    done = subprocess.run([WEFT, *row.command], cwd=ROOT, text=True, capture_output=True)
    if done.returncode != 0:
        return None, (done.stderr.strip().splitlines() or ["no message"])[-1]
    last = re.search(r"([\d.]+) tokens/s a rank, ([\d.]+) % MFU", done.stdout)
    if not last:
        return None, "the plan has no prediction"
    needs = re.search(r"needs ([\d.]+) GiB on a rank", done.stdout)
    memory = float(needs[1]) if needs else None
    return (float(last[1] if row.unit == "tokens/s" else last[2]), memory, memory and memory + row.logits() * LOGIT_BYTES / 2**30), None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", metavar="WORD")
    parser.add_argument("--command", action="store_true")
    arguments = parser.parse_args()
    chosen = [row for row in rows() if all(word in f"{row.source} {row.name}" for word in arguments.words)]
    errors, missing = collections.defaultdict(list), 0
    print("| source | run | published | predicted | error | GiB published | predicted | error | + logits | error |\n|---|---|" + "---:|" * 8)
    with ThreadPoolExecutor(2) as pool:
        for row, (found, why) in zip(chosen, pool.map(predict, chosen)):
            cells, unit = [""] * 7, "" if row.unit == "tokens/s" else " % MFU"
            if found is None:
                cells[0] = why
                missing += 1
            else:
                value, needs, with_logits = found
                error = value / row.published - 1
                for group in (row.group, "all", *(["the goal's, both"] if row.group.startswith("the goal's") else [])):
                    errors[group].append(error)
                cells = [f"{value:,.0f}" if row.unit == "tokens/s" else f"{value:.1f}", f"{100 * error:+.0f} %", f"{row.memory or ''}"] + [""] * 4
                if row.memory and needs:
                    memory = [needs / row.memory - 1, with_logits / row.memory - 1]
                    errors["memory"].append(memory[0])
                    errors["memory, + logits"].append(memory[1])
                    cells[3:] = [f"{needs:.1f}", f"{100 * memory[0]:+.0f} %", f"{with_logits:.1f}", f"{100 * memory[1]:+.0f} %"]
            print(f"| {row.source} | {row.name} | {row.published:,}{unit} | " + " | ".join(cells) + " |", flush=True)
            if arguments.command:
                print("  " + shlex.join([WEFT, *row.command]))
    print("\n| rows | how many | median error | worst |\n|---|---:|---:|---:|")
    for group, found in errors.items():
        sizes = [abs(e) for e in found]
        print(f"| {group} | {len(found)} | {100 * statistics.median(sizes):.0f} % | {100 * max(sizes):.0f} % |")
    sys.exit(missing > 0)


main()
