#!/usr/bin/env bash
# All that wants a GPU, on a machine that has one, in ten minutes:
#
#   perf/gpu.sh --pack [BUILD]   where Weft was built (BUILD: build/cuda): makes build/gpu, what a bare machine needs of it
#   perf/gpu.sh [PART]...        on the machine with the GPU; ends with a table of verdicts
#
# PART, in this order without any:
#   tests      programs of the cuda build that need a device; cuDNN compiles some 200 shapes for them (120 s)
#   sanitizer  compute-sanitizer's memcheck and racecheck over the kernel tests at small sizes (80 s)
#   train      Llama 3 8B's shape with as many layers as fit: tokens/s and MFU, with a CUDA graph and without (150 s)
#   ranks      two NCCL ranks on the one GPU, which must have the losses of one (60 s)
#   peer       four such layers, and PyTorch's beside them (90 s)
#   kernels    bench_kernels at 8B's shapes, and PyTorch's beside it (100 s)
#
# PyTorch is that of python3, where it sees the GPU. A part that cannot run says why and counts as skipped; each has a time limit (above). Logs go to $OUT (default: perf/gpu_results).
# The exit status is 0 when no part failed, and 77 with one line where there is no GPU.
#
# A bare machine gets the sources as a copy of the working tree. What is built travels as build/gpu, which git ignores and which has to be
# named to whatever carries it: an archive of some 30 MB. It has the programs without symbols; the shared libraries that they need and
# the C library has not (Open MPI with its components, HDF5, fmt, ...); and the source folder's path, of which tests know their data.
# Not in it, because of their size: CUDA's runtime, cuBLASLt, cuDNN and NCCL, which are looked for in CUDA_HOME (default: /usr/local/cuda),
# in the packages that PyTorch brings, and in the system's folders. A machine with Weft's build tools needs no pack: build/cuda is then run.
#
# Two ranks on a GPU need an NCCL that allows it: WEFT_NCCL is the folder of a libnccl.so.2 (the package nvidia-nccl-cu13, 2.29 or newer)
# that is taken instead of the machine's.
# shellcheck disable=SC2317,SC2086  # functions are called by part; numbers and the launcher's words need no quotes
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
exec </dev/null

programs=(weft perf/bench_kernels tests/test_kernels tests/test_exec tests/test_golden_ops tests/test_transformers tests/test_curve tests/test_model)

# Lists the shared libraries of programs and components, without those of C, C++, the driver and CUDA.
libraries_of() {
  ldd "$@" 2>/dev/null | awk '/=> \//{print $3}' | sort -u |
    grep -vE '/(ld-linux[^/]*|lib(c|m|pthread|dl|rt|resolv|gcc_s|stdc\+\+|cuda|cudart|cublas|cublasLt|cudnn[^.]*|nccl|nvrtc[^.]*|nvJitLink)\.so)'
}

pack() {
  local from=${1:-build/cuda} to program components
  [ -x "$from/weft" ] || { echo "gpu.sh: no $from/weft; build it first: jobs/setup.sh --preset cuda" >&2; exit 1; }
  to=$(mktemp -d)
  mkdir -p "$to/lib/openmpi"
  for program in "${programs[@]}"; do
    [ ! -x "$from/$program" ] || { mkdir -p "$to/$(dirname "$program")" && strip -o "$to/$program" "$from/$program"; }
  done
  cp "$(readlink -f "$(command -v mpirun)")" "$to/mpirun"
  components=$(ompi_info --parsable --path pkglibdir | cut -d: -f3)
  # Components for networks and schedulers are left out, with what they load, because all ranks are on one
  # host.
  find "$components" -name 'mca_*.so' | grep -vE 'ucx|ofi|openib|verbs|psm|usnic|portals|slurm|alps|_tm\.|_cm\.|spml|scoll|sshmem|memheap|atomic|monitoring' |
    xargs cp -L -t "$to/lib/openmpi"
  cp -r "$(ompi_info --parsable --path pkgdatadir | cut -d: -f3)" "$to/share"
  libraries_of "$to/weft" "$to/mpirun" "$to"/tests/* "$to"/perf/* "$to"/lib/openmpi/*.so | xargs cp -L -t "$to/lib"
  strip --strip-unneeded "$to"/lib/*.so* "$to"/lib/openmpi/*.so
  pwd >"$to/source_dir"
  rm -rf build/gpu
  mkdir -p build/gpu
  tar -C "$to" -czf build/gpu/pack.tgz .
  rm -rf "$to"
  du -h build/gpu/pack.tgz
}

if [ "${1:-}" = --pack ]; then shift; pack "$@"; exit; fi
nvidia-smi -L 2>/dev/null | grep -q '^GPU ' || { echo "gpu.sh: no GPU here"; exit 77; }

out=${OUT:-$PWD/perf/gpu_results}
mkdir -p "$out"
build=${WEFT_BUILD:-build/gpu}
[ ! -f "$build/pack.tgz" ] || [ -x "$build/weft" ] || tar -C "$build" -xzf "$build/pack.tgz"
[ -x "$build/weft" ] || build=build/cuda
[ -x "$build/weft" ] || { echo "gpu.sh: neither build/gpu/weft nor build/cuda/weft; see the head of perf/gpu.sh" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Prints the folders that hold the libraries which are not carried: for each the first folder that has it.
cuda_folders() {
  local name found packages
  packages=$(python3 -c 'import nvidia; print(*nvidia.__path__)' 2>/dev/null)
  for name in libcudart.so libcublasLt.so libcudnn.so libnvrtc.so libnccl.so libcuda.so; do
    # shellcheck disable=SC2086
    found=$(find -L ${WEFT_NCCL:-} "${CUDA_HOME:-/usr/local/cuda}/lib64" $packages /usr/lib/x86_64-linux-gnu /usr/local/nvidia -name "$name.*" -print -quit 2>/dev/null)
    [ -z "$found" ] || dirname "$found"
  done
}

# here COMMAND...: a program of the build, with the carried libraries and CUDA's.
libraries=${WEFT_NCCL:+$WEFT_NCCL:}$( [ ! -d "$build/lib" ] || echo "$PWD/$build/lib:")$(cuda_folders | awk '!seen[$0]++' | paste -sd:)
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,vader,tcp OMPI_MCA_rmaps_base_oversubscribe=1 \
       OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_mca_base_component_show_load_errors=0 OMP_PROC_BIND=false KOKKOS_DISABLE_WARNINGS=1
here() { LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} "$@"; }
mpirun=mpirun
if [ -x "$build/mpirun" ]; then
  mpirun=$PWD/$build/mpirun
  export OPAL_PREFIX=$PWD/$build OPAL_BINDIR=$PWD/$build OPAL_PKGLIBDIR=$PWD/$build/lib/openmpi OPAL_PKGDATADIR=$PWD/$build/share
  sources=$(cat "$build/source_dir")
  [ -e "$sources" ] || { mkdir -p "$(dirname "$sources")" && ln -s "$PWD" "$sources"; }
fi

summary=() failed=0
# part NAME SECONDS FUNCTION: 0 is good, 77 is "skipped" (its last line says why), anything else has failed, a time-out too.
part() {
  local name=$1 limit=$2 start=$SECONDS status outcome
  printf '\n== %s (at most %d s)\n' "$name" "$limit"
  deadline=$((SECONDS + limit))
  "$3" 2>&1 | tee "$out/$name.log"
  status=${PIPESTATUS[0]}
  case $status in
    0) outcome=ok ;;
    77) outcome=skipped ;;
    *) outcome=FAILED failed=1 ;;
  esac
  summary+=("$(printf '%-10s %-8s %4d s  %s' "$name" "$outcome" $((SECONDS - start)) "$(tail -n 1 "$out/$name.log" | cut -c1-120)")")
}
# Runs a command in what is left of the part's time.
within() { timeout --kill-after=5 $((deadline - SECONDS > 1 ? deadline - SECONDS : 1)) "$@"; }

run_tests() {
  local program name bad=0 ran=0
  for program in "${programs[@]}"; do
    name=$(basename "$program")
    [[ $program == tests/* && -x $build/$program ]] || continue
    ran=$((ran + 1))
    echo "-- $name"
    here within "$build/$program" --gtest_brief=1 || { echo "$name FAILED ($?)"; bad=$((bad + 1)); }
  done
  [ $ran -gt 0 ] || { echo "no test programs in $build"; return 77; }
  echo "$ran programs, $bad failed"
  [ $bad = 0 ]
}

run_sanitizer() {
  local tool=${CUDA_HOME:-/usr/local/cuda}/bin/compute-sanitizer bad=0
  [ -x "$tool" ] || tool=$(command -v compute-sanitizer) || { echo "no compute-sanitizer here"; return 77; }
  [ -x "$build/tests/test_kernels" ] || { echo "no $build/tests/test_kernels"; return 77; }
  local log status filter='RmsNorm.*:Rope.*:Attention.*Team*:CrossEntropy.*:Embedding.*:ExactNorm.*:ClipScale.*:AdamW.*:Accumulate.*:Pointwise.*'
  for check in memcheck racecheck; do
    log=$out/$check.txt
    here timeout --kill-after=5 38 "$tool" --tool $check --error-exitcode 9 --log-file "$log" "$build/tests/test_kernels" --gtest_filter="$filter" \
      >"$out/$check.tests.txt"
    status=$?
    echo "$check: $(grep -c '^\[       OK' "$out/$check.tests.txt") tests passed under it$([ $status != 124 ] || echo ", not all in its time")"
    if [ $status != 0 ] && [ $status != 124 ] || grep -q '= Error:\|= Invalid\|hazard' "$log" || ! grep -q '^\[       OK' "$out/$check.tests.txt"; then
      echo "$check: FAILED ($status)"
      tail -n 20 "$log"
      bad=1
    fi
  done
  [ $bad = 0 ] && echo "memcheck and racecheck found nothing"
}

llama="inputs/llama3_8b.toml"
# Trains with the options that all runs here have: random tokens, and nothing that outlives a run. Arguments: name, --set values.
train() {
  local name=$1 set sets=()
  shift
  for set in data.synthetic=true 'data.train=[]' 'data.valid=[]' checkpoint.final=false checkpoint.every=0 log.every=1 log.progress=false \
    log.tensorboard=false run.dir="$work/$name" "$@"; do sets+=(--set "$set"); done
  OMP_NUM_THREADS=${threads:-$(nproc)} here within ${launcher:-} "$build/weft" train "$deck" "${sets[@]}" >"$out/$name.txt" 2>&1 || {
    local status=$?
    echo "$name ended with $status:"
    tail -n 15 "$out/$name.txt"
    return 1
  }
  cp "$work/$name/metrics.jsonl" "$out/$name.metrics.jsonl"
}

# Prints loss and gradient norm of each step, in all digits.
losses() { python3 -c 'import json, sys; [print(r["step"], r["loss"], r["grad_norm"]) for r in map(json.loads, open(sys.argv[1])) if r["kind"] == "train"]' "$1"; }

# Prints the median of the steps behind the first three, which are a start, a capture, and one more.
speed() {
  python3 - "$1" <<'PY'
import json, statistics, sys
steps = [r for r in map(json.loads, open(sys.argv[1])) if r["kind"] == "train"][3:]
s = statistics.median(r["step_s"] for r in steps)
r = min(steps, key=lambda r: abs(r["step_s"] - s))
print(f"{1e3 * s:.1f} ms a step, {r['tokens_per_s']:.0f} tokens/s, MFU {100 * (r['mfu'] or 0):.1f} %")
PY
}

run_train() {
  local deck=$llama total layers shape most=0 name
  # This is the rate of dense bf16 on an H100 or H200 SXM by NVIDIA's data sheet; MFU is a share of it.
  shape=(run.steps=10 data.global_batch=1 log.peak_tflops=989.4 optimizer.warmup=2)
  total=$(nvidia-smi --query-gpu=memory.total --format=csv,noheader,nounits | head -n 1)
  for layers in 24 20 18 16 14 12 11 10 9 8 6 4; do
    local needed
    needed=$(here within "$build/weft" plan $deck --set data.synthetic=true --set 'data.train=[]' --set 'data.valid=[]' --set data.global_batch=1 \
      --set model.layers=$layers | sed -n 's/.* needs \([0-9.]*\) GiB.*/\1/p')
    # The other 7 % are for CUDA's own memory, cuDNN's, and the graph's.
    if awk -v need="${needed:-1e9}" -v have="$total" 'BEGIN { exit !(need * 1024 < 0.93 * have) }'; then most=$layers; break; fi
  done
  [ $most -gt 0 ] || { echo "four layers do not fit into $total MiB"; return 1; }
  echo "$most layers of 32 (needs $needed GiB of $total MiB), sequences of 8192"
  for name in auto off; do
    train "graph_$name" "${shape[@]}" model.layers=$most schedule.cuda_graph=$name || return 1
    grep -h "CUDA graph" "$out/graph_$name.txt"
    [ $name = off ] || grep -q "replays of a CUDA graph" "$out/graph_$name.txt" || { echo "no graph was captured"; return 1; }
    echo "cuda_graph=$name: $(speed "$out/graph_$name.metrics.jsonl")"
  done
  if [ "$(losses "$out/graph_auto.metrics.jsonl")" != "$(losses "$out/graph_off.metrics.jsonl")" ]; then
    echo "the losses with and without a graph differ"
    return 1
  fi
  echo "$most layers: $(speed "$out/graph_auto.metrics.jsonl")"
}

run_ranks() {
  local deck=inputs/bench_33m.toml sets=(run.steps=6 data.global_batch=8 data.batch=2) threads=4
  train one "${sets[@]}" || return 1
  if ! NCCL_MULTI_RANK_GPU_ENABLE=1 launcher="$mpirun -n 2" train two "${sets[@]}"; then
    grep -q "Duplicate GPU\|invalid usage" "$out/two.txt" || return 1
    echo "this NCCL takes one rank a GPU (give a newer one in WEFT_NCCL)"
    return 77
  fi
  grep -q "replays of a CUDA graph" "$out/two.txt" || { echo "two ranks without a captured graph"; return 1; }
  if [ "$(losses "$out/one.metrics.jsonl")" != "$(losses "$out/two.metrics.jsonl")" ]; then
    paste <(losses "$out/one.metrics.jsonl") <(losses "$out/two.metrics.jsonl")
    echo "the losses of one and two ranks differ"
    return 1
  fi
  echo "two ranks have the losses of one"
}

has_torch() { python3 -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null; }

run_peer() {
  local deck=$llama peer=$out/torch.json
  train four run.steps=12 data.global_batch=1 model.layers=4 log.peak_tflops=989.4 optimizer.warmup=2 || return 1
  echo "Weft:    $(speed "$out/four.metrics.jsonl")"
  has_torch || { echo "no python3 with a torch that sees the GPU"; return 77; }
  within python3 perf/peers/torch_llama.py --device cuda --mode singlec --dtype bf16 --steps 12 --batch 1 --seq 8192 --dim 4096 --layers 4 --heads 32 \
    --kv_heads 8 --ffn 14336 --vocab 128256 >"$peer" || return 1
  python3 - "$peer" "$out/four.metrics.jsonl" <<'PY'
import json, statistics, sys
theirs = json.loads(open(sys.argv[1]).read().splitlines()[-1])
ours = statistics.median(r["step_s"] for r in [r for r in map(json.loads, open(sys.argv[2])) if r["kind"] == "train"][3:])
print(f"PyTorch: {1e3 * theirs['step_s']:.1f} ms a step, {theirs['tok_s']:.0f} tokens/s, {theirs['rss_mib']} MiB")
print(f"Weft has {theirs['step_s'] / ours:.2f} times the tokens of PyTorch")
PY
}

run_kernels() {
  [ -x "$build/perf/bench_kernels" ] || { echo "no $build/perf/bench_kernels (Google Benchmark was not found)"; return 77; }
  if has_torch; then
    within python3 perf/compare_kernels.py --device cuda --python python3 --bench "$build/perf/bench_kernels" --libraries "$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" \
      --models 8b --rounds 1 --seconds 0.3 --threads "$(nproc)"
  else
    here within "$build/perf/bench_kernels" --benchmark_filter=/8b/ --benchmark_min_time=0.1
  fi || return 1
  echo "measured"
}

nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
parts=("$@")
[ $# -gt 0 ] || parts=(tests sanitizer train ranks peer kernels)
for name in "${parts[@]}"; do
  case $name in
    tests) part tests 120 run_tests ;;
    sanitizer) part sanitizer 80 run_sanitizer ;;
    train) part train 150 run_train ;;
    ranks) part ranks 60 run_ranks ;;
    peer) part peer 90 run_peer ;;
    kernels) part kernels 100 run_kernels ;;
    *) echo "gpu.sh: no part '$name'; see the head of perf/gpu.sh" >&2; exit 2 ;;
  esac
done
printf '\n== summary\n'
printf '%s\n' "${summary[@]}" | tee "$out/summary.txt"
exit $failed
