#!/bin/bash
# Weft and its PyTorch peers on the 33.6 M parameter benchmark, in turn: tokens/s (median step) and peak resident memory of a rank.
# usage: perf/compare_33m.sh [PAIRS=3] [fp32|bf16] [PEER...]     peers: ddpc fsdp2c simplefsdp
# WEFT: the program (default: build/cpu/weft). WIRE: fp32 or bf16 gradients between ranks (fp32). STEPS: steps a run (12, of which the
# first three do not count). Other work on the machine spoils the result: ratios are taken within a round, and their range is shown.
set -euo pipefail
cd "$(dirname "$0")/.."
pairs=${1:-3} dtype=${2:-fp32}
peers=("${@:3}")
[ ${#peers[@]} -gt 0 ] || peers=(ddpc fsdp2c simplefsdp)
weft=${WEFT:-build/cpu/weft} wire=${WIRE:-fp32} steps=${STEPS:-12} skip=3
case $dtype:$wire in fp32:fp32 | bf16:fp32 | bf16:bf16) ;; *) echo "compare_33m.sh: dtype $dtype with WIRE=$wire is not a setting of the peers" >&2; exit 2 ;; esac
[ -x "$weft" ] || { echo "compare_33m.sh: no program $weft; build it, or set WEFT" >&2; exit 2; }
python=$(perf/peers/setup.sh)
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
export OMP_NUM_THREADS=1
mpirun=(mpirun -n 2)
[ "$(id -u)" -ne 0 ] || mpirun+=(--allow-run-as-root)

run_weft() { # ROUND
  "${mpirun[@]}" "$weft" train inputs/bench_33m.toml --set run.dir="$out/weft.$1" --set run.steps="$steps" \
    --set precision.params="${dtype/fp32/f32}" --set precision.grad_wire="${wire/fp32/f32}" >"$out/log" 2>&1 || { cat "$out/log" >&2; exit 1; }
  "$python" - "$out/weft.$1/metrics.jsonl" "$skip" <<'PY'
import json, statistics, sys
steps = [r for r in map(json.loads, open(sys.argv[1])) if r["kind"] == "train"]
rate = statistics.median(r["tokens_per_s"] for r in steps[int(sys.argv[2]):])
print("weft", rate, max(r["rss_bytes"] for r in steps) / 2**20)
PY
}

run_peer() { # PEER; PyTorch's compiled FSDP2 aborts now and then at its start
  local try
  for try in 1 2 3; do
    if "$python" -m torch.distributed.run --nproc-per-node 2 perf/peers/torch_llama.py --mode "$1" --dtype "$dtype" --reduce "$wire" \
      --steps "$steps" --skip "$skip" >"$out/json" 2>"$out/log"; then break; fi
    echo "$1 failed (try $try): $(grep -m 1 -E 'terminate|Error' "$out/log")" >&2
    [ "$try" -lt 3 ] || { cat "$out/log" >&2; exit 1; }
  done
  "$python" -c 'import json, sys; r = json.loads(sys.stdin.readlines()[-1]); print(r["mode"], r["tok_s"], r["rss_mib"])' <"$out/json"
}

for ((i = 1; i <= pairs; i++)); do
  for peer in "${peers[@]}"; do
    { run_weft "$i.$peer"; run_peer "$peer"; } | tee -a "$out/results" | sed "s/^/round $i: /" >&2
  done
done

echo "bench_33m, $dtype, gradients on the wire $wire, 2 ranks of one thread, $pairs rounds: median (least .. most)"
"$python" - "$out/results" <<'PY'
import statistics, sys
rows = [(n, float(t), float(m)) for n, t, m in map(str.split, open(sys.argv[1]))]
def show(values, form):
    return f"{format(statistics.median(values), form):>8s} ({format(min(values), form)} .. {format(max(values), form)})"
names = list(dict.fromkeys(n for n, _, _ in rows))
for name in names:
    rate, memory = zip(*((t, m) for n, t, m in rows if n == name))
    print(f"{name:11s} tokens/s {show(rate, '.0f'):28s} peak RSS MiB {show(memory, '.0f')}")
for name in names[1:]:  # rows stand in pairs: Weft, then the peer
    pairs = [(rows[i], rows[i + 1]) for i in range(0, len(rows), 2) if rows[i + 1][0] == name]
    print(f"weft / {name:11s} tokens/s {show([a[1] / b[1] for a, b in pairs], '.2f'):24s} memory {show([a[2] / b[2] for a, b in pairs], '.2f')}")
PY
