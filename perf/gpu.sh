#!/usr/bin/env bash
# All that wants a GPU, on a machine that has one:
#
#   perf/gpu.sh --pack [BUILD]   where Weft was built (BUILD: build/cuda): makes build/gpu, what a bare machine needs of it
#   perf/gpu.sh [PART]...        on the machine with the GPU; ends with a table of verdicts
#   perf/gpu.sh --dry-run [PART]...  the same without a GPU: build/fakecuda (docs/fakecuda.md), tiny shapes, a few tests of each program, and
#                                nvidia-smi, ncu and compute-sanitizer of tests/support/gpu_tools. Each part must run to its end in its time
#                                (`peer` where python3 has PyTorch); figures mean nothing
#
# PART, each with the seconds that it may take at most; without any, all of them in this order. Machines that are lent for ten minutes
# at a time take them in three calls of at most 460 s, so that unpacking fits into eight minutes, too: `tests axes ranks`,
# `train peer profile predict`, and `kernels ncu sanitizer`.
#   tests      every test that needs a device, eight processes at a time; what fails runs again alone, launch by launch (200)
#   axes       small steps of bench_33m on 1, 2 and 4 ranks of the one GPU, on each axis of the mesh, in bf16 and Float8, with a CUDA graph and
#              without, with documents, and continued from a checkpoint: losses beside those of one rank, a line each (100)
#   ranks      two ranks that must have the losses of one; then NCCL's and the training tests on 2, 4 and 1 ranks of the one GPU; what fails
#              runs again alone, launch by launch (160)
#   train      Llama 3 8B's shape with as many layers as fit: tokens/s and MFU, with a CUDA graph and without, and in Float8 beside bf16 (150)
#   peer       four such layers, and Llama 3.2 1B's shape, each beside PyTorch's (150)
#   profile    a traced step of four layers: time, TFLOP/s and GB/s of the 15 largest spans and of each operation (60)
#   predict    a machine profile of four layers, and their step as it predicts it, with and without the profile's algorithms (100)
#   kernels    bench_kernels at 8B's shapes, and PyTorch's beside it (220)
#   ncu        the hardware's counters of five kernels at 8B's shapes, where ncu may read them (60)
#   sanitizer  compute-sanitizer's memcheck and racecheck over the kernel tests at small sizes (180)
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
# shellcheck disable=SC2317,SC2086  # functions are called by part; numbers need no quotes
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
  ldd "$@" 2>/dev/null | sed -n 's/.* => \(\/.*\) (0x[0-9a-f]*)$/\1/p' | sort -u |
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
    xargs -d '\n' cp -L -t "$to/lib/openmpi"
  cp -r "$(ompi_info --parsable --path pkgdatadir | cut -d: -f3)" "$to/share"
  libraries_of "$to/weft" "$to/mpirun" "$to"/tests/* "$to"/perf/* "$to"/lib/openmpi/*.so | xargs -d '\n' cp -L -t "$to/lib"
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
dry=no tiny=() tinier=() torch_device=cuda models=8b
# Each of these takes its share of the time. Sections.* adds up gradients of pieces, and the second has attention over pieces.
sanitized=('Float8.*:Sections.*' 'Attention.*Place*:Attention.*Parts*:Attention.LongSections'
  'RmsNorm.*:Rope.*:Attention.*Team*:CrossEntropy.*:Embedding.*:ExactNorm.*:ClipScale.*:AdamW.*:Accumulate.*:Pointwise.*-Attention.*Place*')
if [ "${1:-}" = --dry-run ]; then
  shift
  dry=yes
  WEFT_BUILD=${WEFT_BUILD:-build/fakecuda}
  PATH=$PWD/tests/support/gpu_tools:$PATH
  # They come after the parts' own settings, and win.
  tiny=(--set model.dim=64 --set model.heads=4 --set model.kv_heads=2 --set model.ffn=128 --set model.vocab=512 --set data.seq=64)
  tinier=(--set data.seq=16 --set data.batch=1 --set data.global_batch=4 --set model.layers=3)  # of the parts with many runs
  torch_device=cpu models=odd
  export FAKECUDA_LARGEST_PRODUCT=1e9 FAKECUDA_FIRST_CHOICE=0.001
  # A thread of the fake device takes twenty times as long: of the tests some of each program (tests/run.sh runs more of them).
  export GTEST_FILTER=${GTEST_FILTER:-AdamW.*:RmsNorm.*:StreamGraph.*:GoldenOps.rms_norm:*Transformers.Logits/0:*Curve.Fp32/0:Replay.*:Nccl.Gathers:Nccl.AllReduces:Nccl.Groups:Lanes.*:Agree.*}
  sanitized=('Sections.*' 'AdamW.*:RmsNorm.*')
  [ -x "$WEFT_BUILD/weft" ] || { echo "gpu.sh: no $WEFT_BUILD/weft; build it first: jobs/setup.sh --preset fakecuda:device_tests" >&2; exit 1; }
fi
parts=("$@")
[ $# -gt 0 ] || parts=(tests axes ranks train peer profile predict kernels ncu sanitizer)
for name in "${parts[@]}"; do
  case $name in
    tests | axes | ranks | train | peer | profile | predict | kernels | ncu | sanitizer) ;;
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
# The seconds of each of so many runs that share what is left of the part's time.
share() {
  local each=$(((deadline - SECONDS) / $1))
  echo $((each > 1 ? each : 1))
}
# Runs a command in what is left of the part's time.
within() { timeout --kill-after=5 "$(share 1)" "$@"; }

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

# A test that failed beside others, in a process of its own or in `on` of them: PROGRAM TEST SECONDS.
run_alone() {
  local name="$1${on:+ on $on ranks} $2" log=$logs/alone.$1.${on:+np$on.}${2//\//_}.txt launcher=() start=$SECONDS status
  [ -z "${on:-}" ] || launcher=("$mpirun" -n "$on")
  CUDA_LAUNCH_BLOCKING=1 WEFT_TEST_DEADLINE=40 OMP_NUM_THREADS=2 here timeout --kill-after=5 "$3" "${launcher[@]}" "$build/tests/$1" \
    --gtest_filter="$2" >"$log" 2>&1
  status=$?
  if [ $status = 0 ]; then
    echo "passes alone: $name"
  elif [ $status = 124 ] || [ $((SECONDS - start)) -ge "$3" ]; then
    echo "DOES NOT END ALONE in $3 s: $name"
  else
    printf 'FAILS ALONE: %s\n%s\n' "$name" "$(grep -v '^\[\|^Note\|^$' "$log" | head -n 12)"
  fi
}

# Counts what failed in a log, eight tests of it at most, and begins to run each of them alone: PROGRAM LOG AT_ONCE. So many run at once, and
# those that run one after the other share what is left of the time, but each gets ten seconds at least, because a start on several ranks takes some.
run_failures_alone() {
  local failed_tests failed_test turns rest seconds
  mapfile -t failed_tests < <(failures_in "$2" | head -n 8)
  bad=$((bad + ${#failed_tests[@]})) turns=${#failed_tests[@]}
  for failed_test in "${failed_tests[@]}"; do
    while [ "$(jobs -rp | wc -l)" -ge "$3" ]; do wait -n; done
    rest=$((deadline - SECONDS)) seconds=$(share $(((turns + $3 - 1) / $3)))
    [ $seconds -ge 10 ] || seconds=$((rest < 10 ? rest : 10))
    if [ $rest -ge 5 ]; then
      run_alone "$1" "$failed_test" $seconds &
    else
      echo "no time is left to run it alone: $1${on:+ on $on ranks} $failed_test"
    fi
    turns=$((turns - 1))
  done
}

run_tests() {
  local program name shards shard log bad=0
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
    run_failures_alone "$(basename "$log" | cut -d. -f1)" "$log" 8
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
  local check group log tests status left=$((2 * ${#sanitized[@]})) only
  for group in "${!sanitized[@]}"; do
    for check in memcheck racecheck; do
      log=$logs/$check.$group.txt tests=$logs/$check.$group.tests.txt only=()
      # The libraries' kernels take most of racecheck's time, and their hazards are not Weft's.
      [ $check = memcheck ] || only=(--kernel-name kernel_substring=weft)
      here timeout --kill-after=5 "$(share $left)" "$tool" --tool $check --error-exitcode 9 "${only[@]}" --log-file "$log" "$build/tests/test_kernels" \
        --gtest_filter="${sanitized[group]}" >"$tests"
      status=$?
      left=$((left - 1))
      echo "$check: $(grep -c '^\[       OK' "$tests") tests of ${sanitized[group]} passed under it$([ $status != 124 ] || echo ", not all in its time")"
      if [ $status != 0 ] && [ $status != 124 ] || grep -q '= Error:\|= Invalid\|Race reported\|SUMMARY: [1-9]' "$log" || ! grep -q '^\[       OK' "$tests"; then
        echo "$check: FAILED ($status)"
        tail -n 20 "$log"
        bad=1
      fi
    done
  done
  [ $bad = 0 ] && echo "memcheck and racecheck found nothing"
}

llama="inputs/llama3_8b.toml"
random_tokens=(--set data.synthetic=true --set 'data.train=[]' --set 'data.valid=[]')
# Trains with the options that all runs here have: random tokens, and nothing that outlives a run. Arguments: name, --set values. `on` is the
# number of ranks, and empty for a run without a launcher.
train() {
  local name=$1 set sets=("${random_tokens[@]}") launcher=()
  shift
  [ -z "${on:-}" ] || launcher=("$mpirun" -n "$on")
  for set in checkpoint.final=false checkpoint.every=0 log.every=1 log.progress=false \
    log.tensorboard=false run.dir="$work/$name" "$@"; do sets+=(--set "$set"); done
  OMP_NUM_THREADS=${threads:-$cores} here within "${launcher[@]}" "$build/weft" train "$deck" "${sets[@]}" "${tiny[@]}" >"$logs/$name.txt" 2>&1 || {
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
      --set checkpoint.every=0 --set model.layers=$layers "${tiny[@]}" |
      awk 'match($0, / needs [0-9.]+ [GM]iB/) { split(substr($0, RSTART, RLENGTH), word, " "); print word[3] == "MiB" ? word[2] / 1024 : word[2] }')
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
  run_float8 $most || return 1
  echo "$most layers: $(speed "$logs/graph_auto.metrics.jsonl"); $(float8_speeds | paste -sd, | sed 's/,/, /g')"
}

# Steps in Float8 and in bf16 in turn, at the shape of run_train: LAYERS. What the part's time leaves out is no failure.
run_float8() {
  local round name sets ran=0 rounds=(1 2)
  [ $dry = no ] || rounds=(1)
  for round in "${rounds[@]}"; do
    for name in bf16 rowwise tensorwise; do
      sets=()
      [ $name = bf16 ] || sets=('precision.float8=["layers.*"]' "precision.float8_scales=$name")
      if ! train "$name.$round" "${shape[@]}" model.layers="$1" "${sets[@]}"; then
        [ $SECONDS -ge "$deadline" ] || return 1
        echo "the time of this part ended in $name.$round"
        return
      fi
      echo "$name.$round: $(speed "$logs/$name.$round.metrics.jsonl")"
    done
  done
}

# Prints what Float8 makes of bf16's time, with both rounds' steps: a line for each kind of scales.
float8_speeds() {
  python3 - "$logs" <<'PY'
import glob, json, statistics, sys


def seconds(kind):
    steps = []
    for path in glob.glob(f"{sys.argv[1]}/{kind}.[12].metrics.jsonl"):
        with open(path, encoding="utf-8") as file:
            steps += [r["step_s"] for r in map(json.loads, file) if r["kind"] == "train"][3:]
    return steps and statistics.median(steps)


bf16 = seconds("bf16")
for kind in ("rowwise", "tensorwise"):
    if bf16 and (narrow := seconds(kind)):
        print(f"Float8 {kind} {bf16 / narrow:.3f} times the tokens of bf16")
PY
}

# Whether a run on several ranks failed because they share a GPU, which older NCCLs do not allow: NAME.
one_rank_a_gpu() { grep -qs "Duplicate GPU\|invalid usage" "$logs/$1.txt"; }

# Prints how far a run is from another one, and ends with 1 where it is too far: NAME OTHER BOUND. As in the training tests losses may be apart
# by the bound, the first norm by ten times as much, and later ones by a hundred times. A bound of 0 asks for the same digits.
beside() {
  python3 - "$logs" "$@" <<'PY'
import json, statistics, sys
sys.path.insert(0, "perf")
from distances import largest, relative
logs, name, other, bound = *sys.argv[1:4], float(sys.argv[4])


def steps_of(run):
    with open(f"{logs}/{run}.metrics.jsonl", encoding="utf-8") as file:
        return [r for r in map(json.loads, file) if r["kind"] == "train"]


found, expected = steps_of(name), steps_of(other)
losses, norms = ([relative(f[key], e[key]) for f, e in zip(found, expected)] for key in ("loss", "grad_norm"))
good = 0 < len(found) == len(expected) and largest(losses) <= bound and norms[0] <= 10 * bound and largest(norms) <= 100 * bound
text = f"{name}: {len(found)} steps, of losses within {largest(losses):.1e} and norms within {largest(norms):.1e} (first {norms[0]:.1e}) of {other}'s"
if good and bound == 0:
    text = f"{name}: {len(found)} steps of the losses and norms of {other}, in all digits"
milliseconds = 1e3 * statistics.median(r["step_s"] for r in found[-3:])
print(f"{text}{'' if good else ': FAILED'}; {milliseconds:.1f} ms a step")
sys.exit(not good)
PY
}

# Looks at a run of run_axes, and counts it: NAME OTHER BOUND. The graph that it must have captured is off where its name says so.
look_at() {
  ran=$((ran + 1))
  if [ ! -e "$logs/$1.metrics.jsonl" ] || [ ! -e "$logs/$2.metrics.jsonl" ]; then
    echo "$1: FAILED, or $2 has"
  elif [[ $1 != *_off ]] && ! grep -q "replays of a CUDA graph" "$logs/$1.txt"; then
    echo "$1: FAILED: no graph was captured"
  elif beside "$@"; then
    return
  fi
  bad=$((bad + 1))
}

# Trains on a mesh, and compares: NAME RANKS MESH OTHER BOUND, --set values. With `saved`, a run of half of the steps, and one that continues it.
# A run takes at most 25 s, so that one that hangs leaves time to the others.
axis() {
  local name=$1 on=$2 mesh=$3 other=$4 bound=$5 end=$deadline status
  shift 5
  all=$((all + 1))
  [ $shared != no ] && [ $((end - SECONDS)) -ge 5 ] || return
  local deadline=$((SECONDS + 25 < end ? SECONDS + 25 : end))
  set -- "${shape[@]}" "parallel.mesh={ $mesh }" "$@"
  if [ -n "${saved:-}" ]; then train "$name" "$@" run.steps=3 checkpoint.final=true && train "$name" "$@" checkpoint.resume=auto; else train "$name" "$@"; fi
  status=$?
  [ $status != 0 ] || shared=yes
  if [ $shared = unknown ] && one_rank_a_gpu "$name"; then
    shared=no
  elif [ $status != 0 ] && [ $SECONDS -ge "$end" ]; then
    echo "$name: the time of this part ended in it"
  elif [ -n "${saved:-}" ] && ! grep -q "continues from step 3" "$logs/$name.txt"; then
    echo "$name: FAILED: it did not continue from step 3"
    ran=$((ran + 1)) bad=$((bad + 1))
  else
    look_at "$name" "$other" "$bound"
  fi
}

run_axes() {
  local deck=inputs/bench_33m.toml threads=4 shape=(run.steps=6 model.layers=4 data.global_batch=8 data.batch=2) all=3 ran=0 bad=0 shared=unknown
  local bf16=(precision.params=bf16) off=schedule.cuda_graph=off near=5e-4
  local float8=("${bf16[@]}" 'precision.float8=["layers.*"]')
  local documents=("${bf16[@]}" data.synthetic=false "data.train=$work/text.bin" data.document_mask=true) tiny=("${tiny[@]}" "${tinier[@]}")
  # Documents of some hundred bytes, each of which is a token.
  awk 'BEGIN { srand(1); for (i = 0; i < 400; ++i) { for (j = int(20 + 80 * rand()); j > 0; --j) printf "%x ", 65536 * rand(); print "\n" } }' >"$work/text.txt"
  here within "$build/weft" data tokenize "$work/text.txt" --train "$work/text.bin" >"$logs/text.txt" || return 1
  # Those of one rank run at once, because their starts take most of their time.
  (
    deadline=$((SECONDS + 40))
    train one_bf16 "${shape[@]}" "${bf16[@]}" &
    train one_bf16_off "${shape[@]}" "${bf16[@]}" $off &
    train one_float8 "${shape[@]}" "${float8[@]}" &
    train one_float8_off "${shape[@]}" "${float8[@]}" $off &
    train one_documents "${shape[@]}" "${documents[@]}" &
    train one_f32 "${shape[@]}" &
    wait
  )
  look_at one_bf16_off one_bf16 0
  look_at one_float8_off one_float8 0
  look_at one_float8 one_bf16 1e-3

  # Cutting layers or the batch changes no digit, and cutting sequences or matrices the last ones. The most valuable comes first.
  axis tensor_bf16 2 "tensor = 2" one_bf16 $near "${bf16[@]}"
  axis context_bf16 2 "context = 2" one_bf16 $near "${bf16[@]}"
  axis pipe_bf16 2 "pipe = 2" one_bf16 0 "${bf16[@]}"
  axis data_bf16 2 "data = 2" one_bf16 0 "${bf16[@]}"
  axis tensor_float8 2 "tensor = 2" one_float8 $near "${float8[@]}"
  axis context_float8 2 "context = 2" one_float8 $near "${float8[@]}"
  axis pipe_float8 2 "pipe = 2" one_float8 0 "${float8[@]}"
  axis data_float8 2 "data = 2" one_float8 0 "${float8[@]}"
  axis context_documents 2 "context = 2" one_documents $near "${documents[@]}"
  saved=yes axis tensor_continued 2 "tensor = 2" tensor_bf16 0 "${bf16[@]}"
  axis data2_tensor_bf16 4 "data = 2, tensor = 2" tensor_bf16 0 "${bf16[@]}"
  axis data2_context_bf16 4 "data = 2, context = 2" context_bf16 0 "${bf16[@]}"
  axis data2_pipe_float8 4 "data = 2, pipe = 2" one_float8 0 "${float8[@]}"
  axis tensor_bf16_off 2 "tensor = 2" tensor_bf16 0 "${bf16[@]}" $off
  axis context_float8_off 2 "context = 2" context_float8 0 "${float8[@]}" $off
  axis pipe_float8_off 2 "pipe = 2" one_float8 0 "${float8[@]}" $off
  axis data_bf16_off 2 "data = 2" one_bf16 0 "${bf16[@]}" $off
  axis tensor_f32 2 "tensor = 2" one_f32 1e-5
  axis context_f32 2 "context = 2" one_f32 1e-5
  axis pipe2_tensor_float8 4 "pipe = 2, tensor = 2" tensor_float8 0 "${float8[@]}"
  axis data4_bf16 4 "data = 4" one_bf16 0 "${bf16[@]}"
  if [ $shared = no ] && [ $bad = 0 ]; then
    echo "this NCCL takes one rank a GPU (see WEFT_NCCL at the head of perf/gpu.sh)"
    return 77
  fi
  echo "$ran of $all comparisons ran, $bad failed"
  [ $bad = 0 ] && [ $ran -gt 3 ]  # the first three are of one rank
}

run_ranks() {
  local deck=inputs/bench_33m.toml sets=(run.steps=10 data.global_batch=8 data.batch=2) threads=4 numbers=(2 4 1) bad=0 verdict ranks program status log left
  local tiny=("${tiny[@]}" "${tinier[@]}")
  # What two ranks make of training comes first; the tests take whatever time there is.
  if ! train one "${sets[@]}"; then
    bad=1 verdict="one rank does not train"
  elif on=2 train two "${sets[@]}"; then
    if ! grep -q "replays of a CUDA graph" "$logs/two.txt"; then
      bad=1 verdict="two ranks without a captured graph"
    elif [ "$(losses "$logs/one.metrics.jsonl")" != "$(losses "$logs/two.metrics.jsonl")" ]; then
      paste <(losses "$logs/one.metrics.jsonl") <(losses "$logs/two.metrics.jsonl")
      bad=1 verdict="the losses of one and two ranks differ"
    else
      verdict="two ranks have the losses of one"
    fi
    # https://github.com/NVIDIA/nccl/issues/1901: NCCL's order between graphs and other launches may cost streams in each graph.
    NCCL_GRAPH_MIXING_SUPPORT=0 on=2 train unmixed "${sets[@]}" &&
      echo "two ranks: $(speed "$logs/two.metrics.jsonl"); with NCCL_GRAPH_MIXING_SUPPORT=0: $(speed "$logs/unmixed.metrics.jsonl")"
  elif one_rank_a_gpu two; then
    numbers=(1) verdict="this NCCL takes one rank a GPU (see WEFT_NCCL at the head of perf/gpu.sh)"
  else
    bad=1 verdict="two ranks do not train"
  fi
  echo "$verdict"
  left=$((${#numbers[@]} * ${#rank_programs[@]}))
  for ranks in "${numbers[@]}"; do
    for program in "${rank_programs[@]}"; do
      log=$logs/$program.np$ranks.txt
      # A communicator takes half a second to open, and the training tests open hundreds.
      OMP_NUM_THREADS=2 WEFT_TEST_DEADLINE=100 here timeout --kill-after=5 "$(share $left)" "$mpirun" -n "$ranks" "$build/tests/$program" >"$log" 2>&1
      status=$?
      echo "$program on $ranks ranks: $(grep -c '^\[ *\(OK\|FAILED\|SKIPPED\) *\] .* ms)$' "$log") of" \
        "$(sed -n 's/^\[=*\] Running \([0-9]*\) tests\? from .*/\1/p' "$log") tests ran, ended with $status"
      if { [ $status = 124 ] || [ $status = 137 ]; } && [ "$program" = test_training ] && ! grep -q '^\[  FAILED  \]' "$log"; then
        echo "its time ended in $(failures_in "$log")"
      elif [ $status != 0 ]; then
        bad=1
        failures_in "$log" | head -n 20
        grep -v '^\[\|^$' "$log" | head -n 12 | cut -c1-300
        # One at a time, because ranks share the GPU, and all in the share of one program, so that the others have theirs.
        on=$ranks deadline=$((SECONDS + $(share $left))) run_failures_alone "$program" "$log" 1
        wait
      fi
      left=$((left - 1))
    done
  done
  echo "$verdict; $([ $bad = 0 ] && echo "no test failed" || echo "something failed")"
  [ $bad = 0 ] || return 1
  [ ${#numbers[@]} -gt 1 ] || return 77
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
  python3 perf/breakdown.py --trace "$logs/profile.trace.json" --limits 3000 60e3 800e3 --spans 15
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

# The kernels that ncu looks at, each with the benchmark that runs it and what of its name tells it from others.
counted=(adamw:AdamStep cross_entropy_grad:CrossEntropyBackward rms_norm_grad:BackwardInRegisters swiglu_grad:SwigluBackward rope_join:Join)
run_ncu() {
  local tool pair name kernel log seconds status model=$models left=${#counted[@]} seen=0 late=0 bad=0
  [ $dry = no ] || model=33m  # its rows are whole packets, as 8B's are: the kernels of other rows are others
  tool=$(command -v ncu) || tool=${CUDA_HOME:-/usr/local/cuda}/bin/ncu
  [ -x "$tool" ] || { echo "no ncu here"; return 77; }
  [ -x "$build/perf/bench_kernels" ] || { echo "no $build/perf/bench_kernels (Google Benchmark was not found)"; return 77; }
  for pair in "${counted[@]}"; do
    name=${pair%:*} kernel=${pair#*:} log=$logs/ncu.${pair%:*} seconds=$(share $left)
    # The clocks stay as they are: they are not ours. The first launches are warm-up.
    here timeout --kill-after=5 "$seconds" "$tool" --clock-control none --set full --import-source yes --kernel-name-base mangled \
      --kernel-name "regex:$kernel" --launch-skip 2 --launch-count 1 --force-overwrite --export "$log" \
      "$build/perf/bench_kernels" --without_limits --benchmark_filter="^$name/$model/bf16" --benchmark_min_time=0.001 >"$log.txt" 2>&1
    status=$?
    left=$((left - 1))
    if grep -q 'ERR_NVGPUCTRPERM\|LibraryNotLoaded' "$log.txt"; then
      echo "this machine does not let ncu read counters"
      return 77
    fi
    if [ $status = 124 ] || [ $status = 137 ]; then
      echo "$name: not in its $seconds s; its last line: $(tail -n 1 "$log.txt")"
      late=$((late + 1))
      continue
    fi
    if [ ! -e "$log.ncu-rep" ]; then
      echo "$name: FAILED: ncu ended with $status and has no report of a third launch of a kernel with '$kernel' in its name:"
      tail -n 5 "$log.txt"
      bad=1
      continue
    fi
    if ! here within "$tool" --import "$log.ncu-rep" --page details >"$log.details.txt" 2>&1; then
      echo "$name: FAILED: ncu cannot read its own report:"
      tail -n 5 "$log.details.txt"
      bad=1
      continue
    fi
    seen=$((seen + 1))
    # Which lines wait for what: nothing depends on it here.
    here within "$tool" --import "$log.ncu-rep" --page source --csv --print-source cuda,sass >"$log.source.csv" 2>&1
    echo "$name: $(sed -nE 's/^ *(Duration|DRAM Throughput|Compute \(SM\) Throughput|Registers Per Thread|Achieved Occupancy) +([^ ]+) +([0-9.,]+) *$/\1 \3 \2/p' "$log.details.txt" |
      paste -sd';' | sed 's/;/; /g')"
  done
  find "$logs" -name '*.ncu-rep' -size +2M -delete  # the archive may have 16 MiB to come back
  echo "$seen of ${#counted[@]} kernels$([ $late = 0 ] || echo ", $late not in their time")"
  # What the part's time leaves out is no failure, but in the dry run, which is to show that each kernel has its time.
  [ $bad = 0 ] && [ $seen -gt 0 ] && { [ $dry = no ] || [ $late = 0 ]; }
}

nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
for name in "${parts[@]}"; do
  case $name in
    tests) part tests 200 run_tests ;;
    axes) part axes 100 run_axes ;;
    ranks) part ranks 160 run_ranks ;;
    train) part train 150 run_train ;;
    peer) part peer 150 run_peer ;;
    profile) part profile 60 run_profile ;;
    predict) part predict 100 run_predict ;;
    kernels) part kernels 220 run_kernels ;;
    ncu) part ncu 60 run_ncu ;;
    sanitizer) part sanitizer 180 run_sanitizer ;;
  esac
done
printf '\n== summary\n'
cat "$out/summary.txt"
exit $failed
