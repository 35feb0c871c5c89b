#!/usr/bin/env bash
# All that wants a GPU, on a machine that has one:
#
#   perf/gpu.sh --pack [BUILD]   where Weft was built (BUILD: build/cuda): makes build/gpu, what a bare machine needs of it
#   perf/gpu.sh [PART]...        on the machine with the GPU; ends with a table of verdicts
#   perf/gpu.sh --dry-run [PART]...  the same without a GPU: build/fakecuda (docs/fakecuda.md), tiny shapes, a few tests of each program, and
#                                nvidia-smi and compute-sanitizer of tests/support/gpu_tools. Each part must run to its end in its time (`peer`
#                                where python3 has PyTorch); figures mean nothing
#
# PART, each with the seconds that it may take at most; without any, all of them in this order. Machines that are lent for ten minutes
# at a time take them in three calls: `tests ranks`, `train peer profile predict`, and `kernels sanitizer`.
#   tests      every test that needs a device, eight processes at a time; what fails runs again alone, launch by launch (200)
#   ranks      NCCL's and the training tests on 1, 2 and 4 ranks of the one GPU, and two ranks that must have the losses of one (240)
#   train      Llama 3 8B's shape with as many layers as fit: tokens/s and MFU, with a CUDA graph and without (150)
#   peer       four such layers, and Llama 3.2 1B's shape, each beside PyTorch's (150)
#   profile    a traced step of four layers: each operation's time, TFLOP/s and GB/s (60)
#   predict    a machine profile of four layers, and their step as it predicts it, with and without the profile's algorithms (120)
#   kernels    bench_kernels at 8B's shapes, and PyTorch's beside it (240)
#   sanitizer  compute-sanitizer's memcheck and racecheck over the kernel tests at small sizes (80)
#
# PyTorch is that of python3, where it sees the GPU. A part that cannot run says why and counts as skipped. All logs go to one archive,
# $OUT/logs.tgz (default: perf/gpu_results), which is written anew after each part, and the verdicts to $OUT/summary.txt.
# The exit status is 0 when no part failed, and 77 with one line where there is no GPU.
#
# A bare machine gets the sources as a copy of the working tree. What is built travels as build/gpu, which git ignores and which has to be
# named to whatever carries it: an archive of some 40 MB. It has the programs without symbols; the shared libraries that they need and
# the C library has not (Open MPI with its components, HDF5, fmt, ...); and the source folder's path, of which tests know their data.
# Not in it, because of their size: CUDA's runtime, cuBLASLt and cuDNN, which are looked for in CUDA_HOME (default: /usr/local/cuda),
# in the packages that PyTorch brings, and in the system's folders. A machine with Weft's build tools needs no pack: build/cuda is then run.
#
# Several ranks on a GPU need NCCL 2.29 or newer. WEFT_NCCL names a libnccl.so.2 that --pack takes along (that of the package
# nvidia-nccl-cu13); of its 250 MB the device code of other architectures is cut out. Else the machine's own NCCL is used.
# shellcheck disable=SC2317,SC2086  # functions are called by part; numbers and the launcher's words need no quotes
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
exec </dev/null

# Each test program with the number of processes that share its tests.
test_programs=(test_kernels:6 test_exec:1 test_golden_ops:3 test_transformers:1 test_curve:1 test_model:4)
rank_programs=(test_nccl test_training)
programs=(weft perf/bench_kernels)
for program in "${test_programs[@]}" "${rank_programs[@]}"; do programs+=("tests/${program%:*}"); done

# Lists the shared libraries of programs and components, without those of C, C++, the driver and CUDA.
libraries_of() {
  ldd "$@" 2>/dev/null | awk '/=> \//{print $3}' | sort -u |
    grep -vE '/(ld-linux[^/]*|lib(c|m|pthread|dl|rt|resolv|gcc_s|stdc\+\+|cuda|cudart|cublas|cublasLt|cudnn[^.]*|nccl|nvrtc[^.]*|nvJitLink)\.so)'
}

# Makes build/gpu anew. Whatever fails ends it, and leaves an older pack as it was.
pack() (
  set -eo pipefail
  local from=${1:-build/cuda} program components
  [ -x "$from/weft" ] || { echo "gpu.sh: no $from/weft; build it first: jobs/setup.sh --preset cuda" >&2; exit 1; }
  mkdir -p build
  new=$(mktemp -d "$PWD/build/gpu.XXXXXX")
  trap 'status=$?; rm -rf "$new"; [ $status = 0 ] || echo "gpu.sh: no pack was made" >&2' EXIT
  to=$new/pack
  mkdir -p "$to/lib/openmpi"
  for program in "${programs[@]}"; do
    [ -x "$from/$program" ] || { echo "gpu.sh: no $from/$program; build it first: ninja -C $from gpu_check" >&2; exit 1; }
    mkdir -p "$to/$(dirname "$program")"
    strip -o "$to/$program" "$from/$program"
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
  if [ -n "${WEFT_NCCL:-}" ]; then
    mkdir "$to/nccl"
    python3 perf/thin_library.py "$WEFT_NCCL" "$to/nccl/libnccl.so.2" --keep 90
  fi
  pwd >"$to/source_dir"
  XZ_OPT="-T0 -4" tar -C "$to" -cJf "$new/pack.txz" .
  rm -rf build/gpu
  mkdir build/gpu
  mv "$new/pack.txz" build/gpu/pack.txz
  du -h build/gpu/pack.txz
)

if [ "${1:-}" = --pack ]; then shift; pack "$@"; exit; fi
dry=no tiny=() torch_device=cuda models=8b
sanitized='RmsNorm.*:Rope.*:Attention.*Team*:CrossEntropy.*:Embedding.*:ExactNorm.*:ClipScale.*:AdamW.*:Accumulate.*:Pointwise.*'
if [ "${1:-}" = --dry-run ]; then
  shift
  dry=yes
  WEFT_BUILD=${WEFT_BUILD:-build/fakecuda}
  PATH=$PWD/tests/support/gpu_tools:$PATH
  # They come after the parts' own settings, and win.
  tiny=(--set model.dim=64 --set model.heads=4 --set model.kv_heads=2 --set model.ffn=128 --set model.vocab=512 --set data.seq=64)
  torch_device=cpu models=odd
  export FAKECUDA_LARGEST_PRODUCT=1e9 FAKECUDA_FIRST_CHOICE=0.001
  # A thread of the fake device takes twenty times as long: of the tests some of each program (tests/run.sh runs more of them).
  export GTEST_FILTER=${GTEST_FILTER:-AdamW.*:RmsNorm.*:StreamGraph.*:GoldenOps.rms_norm:*Transformers.Logits/0:*Curve.Fp32/0:Replay.*:Nccl.Gathers:Nccl.AllReduces:Nccl.Groups:Lanes.*:Agree.*}
  sanitized='AdamW.*:RmsNorm.*'
  [ -x "$WEFT_BUILD/weft" ] || { echo "gpu.sh: no $WEFT_BUILD/weft; build it first: jobs/setup.sh --preset fakecuda:device_tests" >&2; exit 1; }
fi
parts=("$@")
[ $# -gt 0 ] || parts=(tests ranks train peer profile predict kernels sanitizer)
for name in "${parts[@]}"; do
  case $name in
    tests | ranks | train | peer | profile | predict | kernels | sanitizer) ;;
    *) echo "gpu.sh: no part '$name'; see the head of perf/gpu.sh" >&2; exit 2 ;;
  esac
done
nvidia-smi -L 2>/dev/null | grep -q '^GPU ' || { echo "gpu.sh: no GPU here"; exit 77; }

out=${OUT:-$PWD/perf/gpu_results}
mkdir -p "$out"
build=${WEFT_BUILD:-build/gpu}
if [ "$build/pack.txz" -nt "$build/weft" ]; then
  # Bare machines may have no xz, but those with a PyTorch have Python's.
  tar -C "$build" -xJmf "$build/pack.txz" 2>/dev/null || python3 -c 'import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2])' "$build/pack.txz" "$build" || exit 1
fi
[ -x "$build/weft" ] || build=build/cuda
[ -x "$build/weft" ] || { echo "gpu.sh: neither build/gpu/weft nor build/cuda/weft; see the head of perf/gpu.sh" >&2; exit 1; }
work=$(mktemp -d)
logs=$work/logs
mkdir "$logs"
trap 'rm -rf "$work"' EXIT

# Prints the folders that hold the libraries which are not carried: for each the first folder that has it.
cuda_folders() {
  local name found packages
  packages=$(python3 -c 'import nvidia; print(*nvidia.__path__)' 2>/dev/null)
  for name in libcudart.so libcublasLt.so libcudnn.so libnvrtc.so libnccl.so libcuda.so; do
    # shellcheck disable=SC2086
    found=$(find -L "${CUDA_HOME:-/usr/local/cuda}/lib64" $packages /usr/lib/x86_64-linux-gnu /usr/local/nvidia -name "$name.*" -print -quit 2>/dev/null)
    [ -z "$found" ] || dirname "$found"
  done
}

# here COMMAND...: a program of the build, with the carried libraries and CUDA's.
libraries=$( [ ! -d "$build/nccl" ] || echo "$PWD/$build/nccl:")$( [ ! -d "$build/lib" ] || echo "$PWD/$build/lib:")$(cuda_folders | awk '!seen[$0]++' | paste -sd:)
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,vader,tcp OMPI_MCA_rmaps_base_oversubscribe=1 \
       OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_mca_base_component_show_load_errors=0 OMP_PROC_BIND=false KOKKOS_DISABLE_WARNINGS=1 \
       NCCL_MULTI_RANK_GPU_ENABLE=1 OMPI_MCA_btl_vader_single_copy_mechanism=none PMIX_MCA_pcompress_base_silence_warning=1 GTEST_COLOR=no
here() { LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} "$@"; }
mpirun=mpirun
if [ -x "$build/mpirun" ]; then
  mpirun=$PWD/$build/mpirun
  export OPAL_PREFIX=$PWD/$build OPAL_BINDIR=$PWD/$build OPAL_PKGLIBDIR=$PWD/$build/lib/openmpi OPAL_PKGDATADIR=$PWD/$build/share
  sources=$(cat "$build/source_dir")
  [ -e "$sources" ] || { mkdir -p "$(dirname "$sources")" && ln -s "$PWD" "$sources"; }
fi

# nproc takes OMP_NUM_THREADS for the number of cores.
cores=$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc)

summary=() failed=0
# part NAME SECONDS FUNCTION: 0 is good, 77 is "skipped" (its last line says why), anything else has failed, a time-out too.
part() {
  local name=$1 limit=$2 start=$SECONDS status outcome
  printf '\n== %s (at most %d s)\n' "$name" "$limit"
  deadline=$((SECONDS + limit))
  "$3" 2>&1 | tee "$logs/$name.log"
  status=${PIPESTATUS[0]}
  case $status in
    0) outcome=ok ;;
    77) outcome=skipped ;;
    *) outcome=FAILED failed=1 ;;
  esac
  summary+=("$(printf '%-10s %-8s %4d s  %s' "$name" "$outcome" $((SECONDS - start)) "$(tail -n 1 "$logs/$name.log" | cut -c1-120)")")
  printf '%s\n' "${summary[@]}" >"$out/summary.txt"
  tar -C "$work" -czf "$out/logs.tgz" logs
}
# Runs a command in what is left of the part's time.
within() { timeout --kill-after=5 $((deadline - SECONDS > 1 ? deadline - SECONDS : 1)) "$@"; }

# The names of failed tests in a log of GoogleTest, and of the one that was running when the program ended.
failures_in() {
  awk '/^\[ RUN      \]/ { running = $4 } /^\[       OK \]|^\[  SKIPPED \]/ { running = "" }
       /^\[  FAILED  \] [^ ]+\.[^ ,]+/ { split($4, words, ","); failed[words[1]] = 1; running = "" }
       END { if (running) failed[running] = 1; for (test in failed) print test }' "$1" | sort
}

# One of the processes that share a program's tests: PROGRAM SHARD SHARDS SECONDS.
run_shard() {
  GTEST_TOTAL_SHARDS=$3 GTEST_SHARD_INDEX=$2 WEFT_TEST_DEADLINE=110 OMP_NUM_THREADS=2 here timeout --kill-after=5 "$4" \
    "$build/tests/$1" >"$logs/$1.$2.txt" 2>&1 || echo "$1 shard $2 ended with $?" >>"$logs/shards.txt"
}

# A test that failed beside others, in a process of its own: PROGRAM TEST.
run_alone() {
  local log=$logs/alone.$1.${2//\//_}.txt
  if CUDA_LAUNCH_BLOCKING=1 WEFT_TEST_DEADLINE=40 OMP_NUM_THREADS=2 here within "$build/tests/$1" --gtest_filter="$2" >"$log" 2>&1; then
    echo "passes alone: $1 $2"
  else
    printf 'FAILS ALONE: %s %s\n%s\n' "$1" "$2" "$(grep -v '^\[\|^Note\|^$' "$log" | head -n 12)"
  fi
}

run_tests() {
  local program name shards shard log bad=0 failed_test
  : >"$logs/shards.txt"
  for program in "${test_programs[@]}"; do
    name=${program%:*} shards=${program#*:}
    for ((shard = 0; shard < shards; ++shard)); do
      while [ "$(jobs -rp | wc -l)" -ge 8 ]; do wait -n; done
      run_shard "$name" "$shard" "$shards" $((deadline - SECONDS > 45 ? deadline - SECONDS - 40 : 5)) &
    done
  done
  wait
  for program in "${test_programs[@]}"; do
    name=${program%:*}
    grep -q '^\[       OK' "$logs/$name".*.txt || echo "$name: no test passed" >>"$logs/shards.txt"
  done
  cat "$logs/shards.txt"
  echo "$(cat "$logs"/test_*.txt | grep -c '^\[       OK') tests passed"
  # One error of the device spoils all that a process does after it.
  for log in "$logs"/test_*.[0-9].txt; do
    name=$(basename "$log" | cut -d. -f1)
    for failed_test in $(failures_in "$log" | head -n 8); do
      bad=$((bad + 1))
      while [ "$(jobs -rp | wc -l)" -ge 8 ]; do wait -n; done
      run_alone "$name" "$failed_test" &
    done
  done
  wait
  echo "$bad failures"
  [ $bad = 0 ] && [ ! -s "$logs/shards.txt" ]
}

run_sanitizer() {
  local tool bad=0
  tool=$(command -v compute-sanitizer) || tool=${CUDA_HOME:-/usr/local/cuda}/bin/compute-sanitizer
  [ -x "$tool" ] || { echo "no compute-sanitizer here"; return 77; }
  [ -x "$build/tests/test_kernels" ] || { echo "no $build/tests/test_kernels"; return 77; }
  local log status
  for check in memcheck racecheck; do
    log=$logs/$check.txt
    here timeout --kill-after=5 38 "$tool" --tool $check --error-exitcode 9 --log-file "$log" "$build/tests/test_kernels" --gtest_filter="$sanitized" \
      >"$logs/$check.tests.txt"
    status=$?
    echo "$check: $(grep -c '^\[       OK' "$logs/$check.tests.txt") tests passed under it$([ $status != 124 ] || echo ", not all in its time")"
    if [ $status != 0 ] && [ $status != 124 ] || grep -q '= Error:\|= Invalid\|Race reported\|SUMMARY: [1-9]' "$log" || ! grep -q '^\[       OK' "$logs/$check.tests.txt"; then
      echo "$check: FAILED ($status)"
      tail -n 20 "$log"
      bad=1
    fi
  done
  [ $bad = 0 ] && echo "memcheck and racecheck found nothing"
}

llama="inputs/llama3_8b.toml"
random_tokens=(--set data.synthetic=true --set 'data.train=[]' --set 'data.valid=[]')
# Trains with the options that all runs here have: random tokens, and nothing that outlives a run. Arguments: name, --set values.
train() {
  local name=$1 set sets=("${random_tokens[@]}")
  shift
  for set in checkpoint.final=false checkpoint.every=0 log.every=1 log.progress=false \
    log.tensorboard=false run.dir="$work/$name" "$@"; do sets+=(--set "$set"); done
  OMP_NUM_THREADS=${threads:-$cores} here within ${launcher:-} "$build/weft" train "$deck" "${sets[@]}" "${tiny[@]}" >"$logs/$name.txt" 2>&1 || {
    local status=$?
    echo "$name ended with $status:"
    tail -n 15 "$logs/$name.txt"
    return 1
  }
  cp "$work/$name/metrics.jsonl" "$logs/$name.metrics.jsonl"
  cat "$work/$name/log.txt" >>"$logs/$name.txt"
}

# Prints loss and gradient norm of each step, in all digits.
losses() { python3 -c 'import json, sys; [print(r["step"], r["loss"], r["grad_norm"]) for r in map(json.loads, open(sys.argv[1])) if r["kind"] == "train"]' "$1"; }

# The rate of dense bf16 by NVIDIA's data sheets, of which MFU is a share; that of an H100 SXM where the GPU is none of these.
case $(nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader | head -n 1) in
  *H100*PCIe*) peak_tflops=756 ;;
  *H[12]00*NVL*) peak_tflops=835 ;;
  *A100*) peak_tflops=312 ;;
  *) peak_tflops=989.4 ;;  # H100 SXM, H200, GH200
esac

# Prints the median of the steps behind the first three, which are a start, a capture, and one more.
speed() {
  python3 - "$1" $peak_tflops <<'PY'
import json, statistics, sys
steps = [r for r in map(json.loads, open(sys.argv[1])) if r["kind"] == "train"][3:]
s = statistics.median(r["step_s"] for r in steps)
r = min(steps, key=lambda r: abs(r["step_s"] - s))
print(f"{1e3 * s:.1f} ms a step, {r['tokens_per_s']:.0f} tokens/s, MFU {100 * (r['mfu'] or 0):.1f} % of {sys.argv[2]} TFLOP/s")
PY
}

run_train() {
  local deck=$llama total layers shape most=3 too_many=33 needed needed_by_most name
  shape=(run.steps=10 data.global_batch=1 log.peak_tflops="$peak_tflops" optimizer.warmup=2)
  total=$(nvidia-smi --query-gpu=memory.total --format=csv,noheader,nounits | head -n 1)
  [ $dry = no ] || too_many=15  # tiny layers all fit, and the fake device is slow
  while [ $((too_many - most)) -gt 1 ]; do
    layers=$(((most + too_many) / 2))
    needed=$(here within "$build/weft" plan $deck "${random_tokens[@]}" --set data.global_batch=1 \
      --set checkpoint.every=0 --set model.layers=$layers "${tiny[@]}" | sed -n 's/.* needs \([0-9.]*\) GiB.*/\1/p')
    # The other 7 % are for CUDA's own memory, cuDNN's, and the graph's.
    if awk -v need="${needed:-1e9}" -v have="$total" 'BEGIN { exit !(need * 1024 < 0.93 * have) }'; then
      most=$layers needed_by_most=$needed
    else
      too_many=$layers
    fi
  done
  [ $most -gt 3 ] || { echo "four layers do not fit into $total MiB"; return 1; }
  echo "$most layers of 32 (needs $needed_by_most GiB of $total MiB), sequences of 8192"
  for name in auto off; do
    train "graph_$name" "${shape[@]}" model.layers=$most schedule.cuda_graph=$name || return 1
    grep -h "CUDA graph" "$logs/graph_$name.txt"
    [ $name = off ] || grep -q "replays of a CUDA graph" "$logs/graph_$name.txt" || { echo "no graph was captured"; return 1; }
    echo "cuda_graph=$name: $(speed "$logs/graph_$name.metrics.jsonl")"
  done
  if [ "$(losses "$logs/graph_auto.metrics.jsonl")" != "$(losses "$logs/graph_off.metrics.jsonl")" ]; then
    echo "the losses with and without a graph differ"
    return 1
  fi
  echo "$most layers: $(speed "$logs/graph_auto.metrics.jsonl")"
}

run_ranks() {
  local deck=inputs/bench_33m.toml sets=(run.steps=6 data.global_batch=8 data.batch=2) threads=4 ranks program bad=0 bad_alone=0 status log
  for ranks in 1 2 4; do
    for program in "${rank_programs[@]}"; do
      log=$logs/$program.np$ranks.txt
      # A communicator takes half a second to open, and the training tests open hundreds.
      OMP_NUM_THREADS=2 WEFT_TEST_DEADLINE=100 here within $mpirun -n $ranks "$build/tests/$program" >"$log" 2>&1
      status=$?
      echo "$program on $ranks ranks: $(grep -c '^\[       OK' "$log") tests passed, ended with $status"
      [ $status = 0 ] || [ $ranks != 1 ] || bad_alone=1
      [ $status = 0 ] || { bad=1; failures_in "$log" | head -n 20; grep -v '^\[\|^$' "$log" | head -n 12 | cut -c1-300; }
    done
  done
  train one "${sets[@]}" || return 1
  if ! launcher="$mpirun -n 2" train two "${sets[@]}"; then
    grep -q "Duplicate GPU\|invalid usage" "$logs/two.txt" || return 1
    echo "this NCCL takes one rank a GPU (see WEFT_NCCL at the head of perf/gpu.sh)"
    [ $bad_alone = 0 ] || { echo "it takes one rank a GPU, and tests failed on one rank"; return 1; }
    return 77
  fi
  grep -q "replays of a CUDA graph" "$logs/two.txt" || { echo "two ranks without a captured graph"; return 1; }
  if [ "$(losses "$logs/one.metrics.jsonl")" != "$(losses "$logs/two.metrics.jsonl")" ]; then
    paste <(losses "$logs/one.metrics.jsonl") <(losses "$logs/two.metrics.jsonl")
    echo "the losses of one and two ranks differ"
    return 1
  fi
  echo "two ranks have the losses of one"
  [ $bad = 0 ]
}

has_torch() { python3 -c 'import torch, sys; sys.exit(sys.argv[1] == "cuda" and not torch.cuda.is_available())' $torch_device 2>/dev/null; }

# Weft, and then PyTorch. Arguments: name, batch, seq, dim, layers, heads, kv_heads, ffn, tied (true or false).
beside_torch() {
  local name=$1 batch=$2 seq=$3 deck=$llama tied=0 vocab=128256
  [ $dry = no ] || { set -- "$1" "$2" 64 64 "$5" 4 2 128 "$9"; seq=64 vocab=512; }
  [ "$9" = false ] || tied=1
  local shape=(run.steps=12 data.batch="$batch" data.global_batch="$batch" data.seq="$seq" model.dim="$4" model.layers="$5" model.heads="$6"
    model.kv_heads="$7" model.ffn="$8" model.tie_embeddings="$9" log.peak_tflops="$peak_tflops" optimizer.warmup=2)
  train "$name.same_bits" "${shape[@]}" || return 1
  echo "$name, Weft, the same bits each time: $(speed "$logs/$name.same_bits.metrics.jsonl")"
  train "$name" "${shape[@]}" precision.deterministic=false || return 1  # as PyTorch's attention
  echo "$name, Weft: $(speed "$logs/$name.metrics.jsonl"); $(grep -h "memory of a rank" "$logs/$name.txt" | sed "s/.*info *//")"
  within python3 perf/peers/torch_llama.py --device $torch_device --mode singlec --dtype bf16 --steps 12 --batch "$batch" --seq "$seq" --dim "$4" --layers "$5" \
    --heads "$6" --kv_heads "$7" --ffn "$8" --vocab $vocab --tied "$tied" >"$logs/$name.torch.json" 2>"$logs/$name.torch.txt" || {
    tail -n 5 "$logs/$name.torch.txt"
    return 1
  }
  python3 - "$logs/$name.torch.json" "$logs/$name.metrics.jsonl" <<'PY'
import json, statistics, sys
theirs = json.loads(open(sys.argv[1]).read().splitlines()[-1])
ours = statistics.median(r["step_s"] for r in [r for r in map(json.loads, open(sys.argv[2])) if r["kind"] == "train"][3:])
print(f"PyTorch: {1e3 * theirs['step_s']:.1f} ms a step, {theirs['tok_s']:.0f} tokens/s, {theirs['rss_mib']} MiB")
print(f"Weft has {theirs['step_s'] / ours:.2f} times the tokens of PyTorch")
PY
}

run_peer() {
  has_torch || { echo "no python3 with a torch that sees the GPU"; return 77; }
  beside_torch four_layers_of_8b 1 8192 4096 4 32 8 14336 false && beside_torch 1b 2 8192 2048 16 32 8 8192 true
}

run_profile() {
  local deck=$llama
  train profile run.steps=6 data.global_batch=1 model.layers=4 log.peak_tflops="$peak_tflops" optimizer.warmup=2 schedule.cuda_graph=off log.trace_step=6 || return 1
  cp "$work/profile/trace.json" "$logs/profile.trace.json"
  python3 perf/breakdown.py --trace "$logs/profile.trace.json" --limits 3000 60e3 800e3
}

run_predict() {
  local deck=$llama shape=(data.global_batch=1 model.layers=4 optimizer.warmup=2 run.steps=8) set sets=("${random_tokens[@]}")
  for set in "${shape[@]}"; do sets+=(--set "$set"); done
  here within "$build/weft" profile $llama "${sets[@]}" "${tiny[@]}" --seconds 30 --out "$logs/machine.toml" || return 1
  sed -n '/^\[compute\]/,/^$/p' "$logs/machine.toml"
  [ $dry = no ] || [ "$(grep -c '^matmul_f8' "$logs/machine.toml")" = 2 ] || { echo "the profile lacks a rate of products in Float8"; return 1; }
  train predict "${shape[@]}" schedule.profile="$logs/machine.toml" || return 1
  sed -n '/measured *planned/,$s/.*info *//p' "$logs/predict.txt"
  [ $dry = no ] || grep -q '^\[algorithms\]' "$logs/machine.toml" || { echo "the profile lacks products' algorithms"; return 1; }
  sed '/^\[algorithms\]/,$d' "$logs/machine.toml" >"$logs/first_choices.toml"
  train first_choices "${shape[@]}" schedule.profile="$logs/first_choices.toml" || return 1
  echo "products by their fastest algorithms: $(speed "$logs/predict.metrics.jsonl"); by cuBLASLt's first choices: $(speed "$logs/first_choices.metrics.jsonl")"
}

run_kernels() {
  [ -x "$build/perf/bench_kernels" ] || { echo "no $build/perf/bench_kernels (Google Benchmark was not found)"; return 77; }
  if has_torch; then
    within python3 perf/compare_kernels.py --device $torch_device --python python3 --bench "$build/perf/bench_kernels" --libraries "$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" \
      --models $models --rounds 1 --seconds 0.3 --threads "$cores"
  else
    here within "$build/perf/bench_kernels" --benchmark_filter=/$models/ --benchmark_min_time=0.1
  fi || return 1
  echo "measured"
}

nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
for name in "${parts[@]}"; do
  case $name in
    tests) part tests 200 run_tests ;;
    ranks) part ranks 240 run_ranks ;;
    train) part train 150 run_train ;;
    peer) part peer 150 run_peer ;;
    profile) part profile 60 run_profile ;;
    predict) part predict 120 run_predict ;;
    kernels) part kernels 240 run_kernels ;;
    sanitizer) part sanitizer 80 run_sanitizer ;;
  esac
done
printf '\n== summary\n'
cat "$out/summary.txt"
exit $failed
