#!/usr/bin/env bash
# Sets this machine up, builds Weft and tests it:
#
#   tests/run.sh [--quick] [--fuzz] [--mutations] [--fakecuda] [--label LABEL]...
#
# Stages: set-up; clang-format (a file that is not formatted ends it all); preset cpu, all tests; then five parts, which begin with another one
# after each commit: the asan and the tsan build of the tests that can run under them, with the fuzz corpus under asan; the device's tests
# and parts of perf/gpu.sh on fakes of CUDA's libraries; the cuda preset compiled for sm_90 and the code of its kernels (where CUDA is); and
# one build with another compiler or library (tests/builds.sh). Behind the first of them, clang-tidy on changed files. What is only compiled
# or looked at goes on beside the tests. Ends with the slowest tests and targets, and a table of stages and their times; the exit status is 0
# if none failed. Needs no terminal.
#   --quick        only set-up and the cpu tests
#   --fuzz         only set-up, and the fuzz targets (clang) with thousands of changes of the corpus each
#   --mutations    only set-up, and tests/mutate.py: 200 small changes of the sources, which the tests are to notice; hours
#   --fakecuda     only set-up, and all training tests on the fakes of CUDA's libraries; three hours
#   --label LABEL  of the cpu tests only those with that label (unit, extend, mpi, golden, restart, slurm, net); implies --quick
# WEFT_TEST_SECONDS: a stage that would begin later than that is left out, and the table says so.
# WEFT_BASE names the commit that "changed files" are compared with (default: the merge base with origin/main, else HEAD~1).
# shellcheck disable=SC2016,SC2317  # functions are called by stage; some scripts are quoted whole
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
exec </dev/null

# What a run may take on 2 cores from nothing, in seconds. More is said at the end, and fails nothing.
budget_all=1200 budget_quick=480 budget_unit=60

part=all labels=()
while [ $# -gt 0 ]; do
  case $1 in
    --quick) part=quick ;;
    --fuzz) part=fuzz ;;
    --mutations) part=mutations ;;
    --fakecuda) part=fakecuda ;;
    --label) [ $# -ge 2 ] || { echo "tests/run.sh: --label needs a name" >&2; exit 2; }; labels+=("$2"); part=quick; shift ;;
    *) echo "tests/run.sh: unknown option $1; see the head of the file" >&2; exit 2 ;;
  esac
  shift
done

logs=build/test_logs
cores=$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc)
parallel=$((cores + 1))  # a test that only waits runs beside those that compute
mkdir -p "$logs"
rm -f "$logs"/*.{log,end,times,cpu}
began=$(date +%s)
commits=$(git rev-list --count HEAD 2>/dev/null || echo 0)  # draws the order of what is on the fakes' queues
summary=() failed=0 failed_logs=() beside_pid='' test_seconds=0
# Each of them is the first in turn: what is left out for want of time is another one after another commit. "other" is another compiler or
# library.
parts=(asan tsan fakecuda cuda other)
parts=("${parts[@]:commits % 5}" "${parts[@]:0:commits % 5}")

# run_job FUNCTION: runs it in a process of its own and keeps what processor time that and its children took, in seconds.
run_job() (
  "$1"
  status=$?
  times >"$logs/$1.times"  # "0m1.5s 0m0.2s" of the shell and then of its children; in a pipe it would be another shell
  tr 'ms' '  ' <"$logs/$1.times" | awk '{ sum += 60 * ($1 + $3) + $2 + $4 } END { printf "%.0f\n", sum }' >"$logs/$1.cpu"
  exit "$status"
)

# ended NAME FUNCTION STATUS SECONDS [NOTE]: a line of the summary. 0 is good, 77 is "skipped" (its last line says why), else it has failed.
ended() {
  local outcome note=${5:-}
  case $3 in
    0) outcome=ok ;;
    77) outcome=skipped note=$(tail -n 1 "$logs/$2.log") ;;
    *) outcome=FAILED failed=1 failed_logs+=("$logs/$2.log") ;;
  esac
  summary+=("$(printf '%-34s %-8s %5d s %5s s of CPU  %s' "$1" "$outcome" "$4" "$(cat "$logs/$2.cpu" 2>/dev/null || echo 0)" "$note")")
  [ "$outcome" != FAILED ]
}

# out_of_time: true when WEFT_TEST_SECONDS are over. What has not begun then is left out, and the table says so: CI ends a run after 90
# minutes, without a word on what it was about to find.
out_of_time() { [ "$SECONDS" -ge "${WEFT_TEST_SECONDS:-1000000}" ] && echo "left out after $SECONDS s (WEFT_TEST_SECONDS)"; }

# stage NAME FUNCTION: runs it now.
stage() {
  local start=$SECONDS
  printf '\n== %s\n' "$1"
  if out_of_time >"$logs/$2.log"; then
    ended "$1" "$2" 77 0
    return
  fi
  run_job "$2" 2>&1 | tee "$logs/$2.log"
  ended "$1" "$2" "${PIPESTATUS[0]}" $((SECONDS - start))
}

# beside FUNCTION...: runs them one after the other in the background, at the lowest priority: tests wait for half of their time. The
# stages that need what they make call `wait_for NAME FUNCTION`, which shows what it has said.
beside() {
  set -m  # a process group of its own, which ends with this run: what a stage left out may still be being built
  trap 'kill -- "-$beside_pid" 2>/dev/null' EXIT
  (
    renice -n 19 "$BASHPID" >/dev/null
    for job in "$@"; do
      start=$SECONDS
      run_job "$job" >"$logs/$job.log" 2>&1
      echo "$? $((SECONDS - start))" >"$logs/$job.part"
      mv "$logs/$job.part" "$logs/$job.end"
    done
  ) &
  beside_pid=$!
  set +m
}
wait_for() {
  local status seconds
  if out_of_time >"$logs/not_waited.log" && [ ! -f "$logs/$2.end" ]; then
    ended "$1" not_waited 77 0
    return 1
  fi
  while [ ! -f "$logs/$2.end" ] && kill -0 "$beside_pid" 2>/dev/null; do sleep 1; done
  read -r status seconds <"$logs/$2.end" || status=1 seconds=0
  printf '\n== %s (beside the tests)\n' "$1"
  cat "$logs/$2.log"
  ended "$1" "$2" "$status" "$seconds" "beside the tests"
}

# What failed stands once more at the end: of a long log often only that is kept.
print_failures() {
  local log
  for log in "${failed_logs[@]}"; do
    printf '\n== failed: %s\n' "$log"
    grep -nE -A 4 'Failure$|FAILED|\*\*\*|[Ee]rror:|warning:|ERROR: .*Sanitizer|WARNING: ThreadSanitizer' "$log" | cut -c1-240 | tail -n 80
  done
}

# The slowest tests and targets of this run, in seconds; a target's are those of all its compilations.
print_slowest() {
  local log preset tests
  tests=$(for log in "$logs"/test_*.log; do
    [ ! -f "$log" ] || sed -nE "s/^ *[0-9]+\/[0-9]+ Test +#[0-9]+: ([^ ]+) [.* ]+(\w.*) +([0-9.]+) sec.*/\3 $(basename "$log" .log) \1/p" "$log"
  done | sort -rn | head -n 15)
  [ -z "$tests" ] || { printf '\n== slowest tests\n'; awk '{printf "%8.1f s  %-10s %s\n", $1, $2, $3}' <<<"$tests"; }
  targets=$(for log in build/*/.ninja_log; do
    [ -f "$log" ] || continue
    preset=${log#build/} preset=${preset%%/*}
    # start, end (ms), time of the output (ns), output, hash of the command. The same edge may have several outputs.
    awk -F'\t' -v began="$began" -v preset="$preset" 'NF == 5 && $3 / 1e9 >= began && !seen[$1, $2, $5]++ && match($4, /[^\/]*\.dir\//) {
      time[substr($4, RSTART, RLENGTH - 5)] += ($2 - $1) / 1000 }
      END { for (target in time) print time[target], preset, target }' "$log"
  done | sort -rn | head -n 15)
  [ -z "$targets" ] || { printf '\n== slowest targets\n'; awk '{printf "%8.1f s  %-10s %s\n", $1, $2, $3}' <<<"$targets"; }
}

# budget NAME LIMIT SECONDS
budget() { printf 'budget of %s: %d s, took %d s%s\n' "$1" "$2" "$3" "$([ "$3" -le "$2" ] || echo ' (exceeded; on 2 cores, from nothing)')"; }

print_summary() {
  print_failures
  print_slowest
  printf '\n== summary\n'
  printf '%s\n' "${summary[@]}" "$(printf '%-34s %-8s %5d s' all "$([ $failed = 0 ] && echo ok || echo FAILED)" "$SECONDS")"
  [[ "${summary[*]}" != *WEFT_TEST_SECONDS* ]] || echo "Not all was tested: some stages had no time."
  case $part in
    all) budget tests/run.sh "$budget_all" "$SECONDS" ;;
    quick) [ ${#labels[@]} -gt 0 ] || budget "tests/run.sh --quick" "$budget_quick" "$SECONDS" ;;
  esac
  [ "${labels[*]}" != unit ] || budget "ctest -L unit" "$budget_unit" "$test_seconds"
  exit $failed
}

# run_ctest PRESET LABEL...: runs the preset's tests, all of them or those with one of the labels.
run_ctest() {
  local preset=$1 regex=''
  shift
  [ $# -eq 0 ] || regex="^($(IFS='|'; echo "$*"))\$"
  ctest --test-dir "build/$preset" --output-on-failure --no-tests=error --parallel "$parallel" ${regex:+--label-regex "$regex"}
}

sources() { git ls-files --cached --others --exclude-standard -- '*.hpp' '*.cpp' 2>/dev/null || find src comm kernels perf tests -name '*.[hc]pp'; }

# Lists the sources changed since the base, uncommitted changes included; all sources when there is nothing to
# compare with.
changed_sources() {
  local base=${WEFT_BASE:-}
  [ -n "$base" ] || base=$(git merge-base HEAD origin/main 2>/dev/null)
  if [ -z "$base" ] || [ "$base" = "$(git rev-parse HEAD 2>/dev/null)" ]; then base=$(git rev-parse --verify --quiet HEAD~1); fi
  if [ -z "$base" ]; then sources; return; fi
  { git diff --name-only --diff-filter=d "$base" -- '*.hpp' '*.cpp'; git ls-files --others --exclude-standard -- '*.hpp' '*.cpp'; } | sort -u
}

setup() { jobs/setup.sh --tests; }

build_cpu() {
  jobs/setup.sh --preset cpu | tee "$logs/warnings.log" || return 1
  if grep -n 'warning:' "$logs/warnings.log"; then echo "the build is to be free of warnings"; return 1; fi
}

test_cpu() { run_ctest cpu "${labels[@]}"; }

build_asan() { jobs/setup.sh --preset asan:tests_unit --preset asan:tests_mpi --preset asan:tests_fuzz; }
build_tsan() { jobs/setup.sh --preset tsan:test_comm --preset tsan:test_comm_fake --preset tsan:test_recorder --preset tsan:test_training; }

# Of the training tests one rank count is enough here, and of the measurements two: the sanitizer sees the same code at each, thirty times
# slower; and so it does in plans of many rounds, whose tests take a minute each, and in enumerations of graphs. Of the kernels' instructions
# it sees the machine's best and AVX2.
test_asan() {
  GTEST_FILTER='-StepSeconds.OfManyRounds*:ChooseSchedule.ManyRounds*:*Arena.IsWithinTwoPercent*/none:*Arena.IsWithinTwoPercent*/selective:Estimate.*:Placements.N*:Stages.*BesideOtherAxes:Advice.IsTheBest*:Advice.KeepsTo*:PredictedStep.HasTheMemory*:PredictedStep.WaitsIn*:StudyTest.RunsTell*' \
    ctest --test-dir build/asan --output-on-failure --no-tests=error --parallel "$parallel" --label-regex '^(unit|mpi|fuzz)$' --exclude-regex '(training.np[1346]|measure.np[34]|kernels.AVX512)' &&
    test_on_four_ranks build/asan
}

# test_on_four_ranks BUILD [TESTS]: runs what only four ranks have (meshes of two axes, and pipes with stages between the first and the
# last), and TESTS.
axes='Pipe.EveryModeHas*:Tensor.Gradients*:Context.Gradients*'
test_on_four_ranks() {
  OMP_NUM_THREADS=1 GTEST_FILTER=$axes:${2:-} \
    ctest --test-dir "$1" --output-on-failure --no-tests=error --tests-regex '^mpi\.training\.np4$'
}

# Runs the communication layer with its recorder, and training on two ranks, under tsan: there Weft's own threads meet. Each
# rank has one OpenMP thread, because libgomp shows false races. Left out is what training does without a
# thread of its own (bad numbers, initial weights, what bits depend on), and what sends other numbers, lengths or layers through the
# same threads; Skip saves in the background.
test_tsan() {
  OMP_NUM_THREADS=1 GTEST_FILTER='-*BadStep.*:BadNumbers.*:RollBack.*:Locate.*:Init.*:Bits.DependOn*:Bits.Fusing*:Float8.*:HashesOfPipes.*:TokenRows.*:UnevenTokens.*:*.Numerics*:Tensor.Heads*:*.CheckpointsLoad*:*.SendsWhat*:*.TiedEmbeddings*:*.ValidationAnd*:Context.Sections*:Pipe.LayersMay*:Hosts/FakeWindow.SharesAndCrosses/[34]' \
    ctest --test-dir build/tsan --output-on-failure --no-tests=error --parallel "$parallel" --tests-regex '^(mpi\.(comm\.np[124]|comm_fake|training\.np2)|unit\.recorder)$' &&
    test_on_four_ranks build/tsan
}

# Runs the corpus, and then changes of it that are the same each time. tests/fuzz/run.sh is for longer runs.
test_fuzz() {
  clang++ -fsanitize=fuzzer -x c++ -o /dev/null - <<<'extern "C" int LLVMFuzzerTestOneInput(const char*, unsigned long) { return 0; }' 2>/dev/null ||
    { echo "no clang++ with libFuzzer on this machine"; return 77; }
  jobs/setup.sh --preset fuzz && run_ctest fuzz
}

# It fails when fewer than 95 of 100 are noticed.
test_mutations() { tests/mutate.py --goal 95; }

# It may take longest of all: begun later, it would run into CI's end after 90 minutes.
build_in_turn() {
  local name
  name=$(tests/builds.sh --whose-turn)
  [ "$SECONDS" -lt 3900 ] || { echo "no time after 65 minutes for $name, which last passed by hand: $(passed "$name")"; return 77; }
  tests/builds.sh "$name"
}

# passed NAME: when that line of docs/builds.md last did, run by hand.
passed() { sed -nE "s/^\| \`$1\` \|.*\| ([^|]+) \|\$/\1/p" docs/builds.md; }

has_nvcc() {
  command -v nvcc >/dev/null || [ -x "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" ] || { echo "no CUDA on this machine"; return 1; }
}

# The device's tests on a device that is not there (docs/fakecuda.md).
build_fakecuda() {
  has_nvcc || return 77
  jobs/setup.sh --preset fakecuda:device_tests
}

# drawn_anew COMMAND...: the order of what is on the fakes' queues is another one after each commit (docs/fakecuda.md).
drawn_anew() {
  echo "FAKECUDA_SEED=$commits"
  FAKECUDA_SEED=$commits "$@" || { echo "FAILED with FAKECUDA_SEED=$commits"; return 1; }
}

# A kernel's threads take turns on one core, so that training takes twenty times as long: of its tests those whose bits tell of each kind of
# collective, of every mode and schedule, of checkpoints and of bad numbers; on four ranks those of modes, of axes and of the order of sums alone.
fakecuda_trainings="Precisions/Bits.*:$axes:Replicas.*Mode*:Replicas.AreAdded*:Replicas.Checkpoints*:Lanes.*:Agree.*:BadNumbers.*:Skip.*:RollBack.Without*:Bits.AreTheSame*:Bits.ReducingOnce*:Context.Validation*:Pipe.MetricsHave*:Pipe.TiedEmbeddings*:Init.IsTheSameInAPipe:Init.APipe*:Session.*:Float8.Losses*:Float8.ABad*:Float8.Gradients*"
fakecuda_trainings_on_four='Precisions/Bits.*/0:Precisions/Bits.*/8:Replicas.AreAdded*'
test_fakecuda() {
  has_nvcc || return 77
  local status=0 run=(ctest --test-dir build/fakecuda --output-on-failure --no-tests=error --parallel "$parallel")
  # unit.cudnn_plans is no test where cuDNN or its front end is missing or too old. (grep -q would end ctest by SIGPIPE.)
  ctest --test-dir build/fakecuda --show-only | grep ' unit\.cudnn_plans$' >/dev/null || {
    echo "unit.cudnn_plans is missing: it needs cuDNN 9.8 or later and its front end"
    [ "${WEFT_TEST_TOOLS:-}" != all ] || status=1
  }
  "${run[@]}" --tests-regex '^(unit\.(fakecuda|fakecuda_runs|cudnn_plans|kernels|exec|model)|golden\.(golden_ops|transformers)|mpi\.nccl\.np[124])$' || status=1
  GTEST_FILTER=$fakecuda_trainings drawn_anew "${run[@]}" --tests-regex '^mpi\.training\.np[12]$' || status=1
  GTEST_FILTER='MeasureStep.ItsProducts*' "${run[@]}" --tests-regex '^mpi\.measure\.np[12]$' || status=1
  OUT=$PWD/$logs/gpu_dry_run perf/gpu.sh --dry-run train profile predict ncu || status=1
  return "$status"
}

test_fakecuda_on_four_ranks() {
  has_nvcc || return 77
  drawn_anew test_on_four_ranks build/fakecuda "$fakecuda_trainings_on_four"
}

# train_on_fakes RANKS PARTS PART: one part of the training tests on the fakes, and what it said once it has ended.
train_on_fakes() {
  local said status=0
  said=$(GTEST_TOTAL_SHARDS=$2 GTEST_SHARD_INDEX=$3 drawn_anew \
    ctest --test-dir build/fakecuda --output-on-failure --no-tests=error --tests-regex "^mpi\\.training\\.np$1\$") || status=1
  printf 'part %d of %d on %d ranks\n%s\n' $(($3 + 1)) "$2" "$1" "$said"
  return "$status"
}

# All training tests, in parts that are no longer than a test may take, as many at a time as there are cores.
test_training_on_fakes() {
  has_nvcc || { echo "no CUDA on this machine"; return 77; }
  local ranks at_once status=0
  export commits
  export -f train_on_fakes drawn_anew
  for ranks in 1 2 4; do
    at_once=$((cores > ranks ? cores / ranks : 1))
    seq 0 $((16 * ranks - 1)) | xargs -P "$at_once" -I '{}' \
      bash -c 'train_on_fakes "$@"' parts "$ranks" $((16 * ranks)) '{}' || status=1
  done
  return "$status"
}

build_cuda() {
  has_nvcc || return 77
  jobs/setup.sh --preset cuda:gpu_check
}

# What nvcc made of the kernels: registers, shared memory, and how wide they read and write.
test_device_code() {
  has_nvcc || return 77
  tests/device_code.py build/cuda
}

check_format() {
  command -v clang-format >/dev/null || { echo "no clang-format on this machine"; return 77; }
  # Another version formats differently; 14 is Debian 12's.
  [[ $(clang-format --version) == *"version 14"* ]] || { echo "clang-format is not version 14"; return 77; }
  sources | xargs -r clang-format --dry-run -Werror && echo "$(sources | wc -l) files are formatted"
}

# Prints a clang-tidy that can parse libstdc++ 12 (16 or later): the machine's, or one from a wheel that is
# kept in the cache.
find_clang_tidy() {
  local version=18.1.8 own
  own=${WEFT_CACHE:-$HOME/.cache/weft}/clang-tidy-$version
  for candidate in clang-tidy clang-tidy-{16,17,18,19,20} "$own/clang_tidy/data/bin/clang-tidy"; do
    if [[ $("$candidate" --version 2>/dev/null) =~ version\ (1[6-9]|[2-9][0-9]) ]]; then command -v "$candidate"; return; fi
  done
  rm -rf "$own.part"
  python3 -m pip install --quiet --no-deps --target "$own.part" "clang-tidy==$version" >&2 && rm -rf "$own" && mv "$own.part" "$own" &&
    echo "$own/clang_tidy/data/bin/clang-tidy"
}

check_tidy() {
  local tidy units kokkos
  # A configuration of its own, in which each source is compiled alone and without precompiled headers: an include that is missing is seen.
  kokkos=$(cmake/get_kokkos.sh) || return 1
  if ! cmake --preset cpu -B build/tidy -U Kokkos_DIR -D Kokkos_ROOT="$kokkos" -D CMAKE_UNITY_BUILD=OFF \
    -D CMAKE_DISABLE_PRECOMPILE_HEADERS=ON >"$logs/tidy_configure.log" 2>&1; then
    tail -n 20 "$logs/tidy_configure.log"
    return 1
  fi
  tidy=$(find_clang_tidy) || { echo "no clang-tidy 16 or later, and none to be had from PyPI"; return 77; }
  # A changed header is seen through the source beside it. Only what the cpu preset compiles can be parsed.
  units=$(changed_sources | sed 's/\.hpp$/.cpp/' | sort -u | while read -r file; do
    if [ -f "$file" ] && grep -qF "$PWD/$file\"" build/tidy/compile_commands.json; then echo "$file"; fi
  done)
  [ -n "$units" ] || { echo "no source has changed"; return 0; }
  # omp.h is GCC's, with an attribute that clang does not know; it stands after all other include folders, so that clang's own headers
  # win. A first commit or a large merge is more than this stage has time for: what is left then is said, not hidden.
  local seconds=${WEFT_TIDY_SECONDS:-300} status left
  : >"$logs/tidy_left"
  tidy_until=$(($(date +%s) + seconds)) tidy=$tidy logs=$logs omp=$("${CXX:-c++}" -print-file-name=include) \
    xargs -P "$cores" -n 1 bash -c '
      if [ "$(date +%s)" -ge "$tidy_until" ]; then echo "$1" >>"$logs/tidy_left"; exit 0; fi
      "$tidy" -p build/tidy --quiet --warnings-as-errors="*" --extra-arg=-Wno-unknown-warning-option \
        --extra-arg="-idirafter$omp" --extra-arg="-D__malloc__(...)=__malloc__" \
        "$1" 2>>"$logs/tidy_counts.log"' tidy <<<"$units"
  status=$?
  left=$(wc -l <"$logs/tidy_left")
  echo "$(($(wc -l <<<"$units") - left)) files looked at$([ "$left" = 0 ] || echo ", $left left out after $seconds s (WEFT_TIDY_SECONDS)")"
  return "$status"
}

stage "set-up" setup || print_summary
if [ $part = fuzz ]; then
  stage "fuzz targets" test_fuzz
  print_summary
fi
if [ $part = mutations ]; then
  stage "mutations" test_mutations
  print_summary
fi
if [ $part = fakecuda ]; then
  stage "build (fakecuda)" build_fakecuda && stage "training on fakes" test_training_on_fakes
  print_summary
fi
if [ $part = all ]; then stage "clang-format" check_format || print_summary; fi
stage "build (cpu)" build_cpu || print_summary
if [ $part = all ]; then
  builds=()
  for name in "${parts[@]}"; do [ "$name" = other ] || builds+=("build_$name"); done
  beside "${builds[0]}" check_tidy "${builds[@]:1}"
fi
test_start=$SECONDS
stage "tests (cpu)" test_cpu
test_seconds=$((SECONDS - test_start))
if [ $part = all ]; then
  for name in "${parts[@]}"; do
    case $name in
      asan) wait_for "build (asan)" build_asan && stage "tests under asan and ubsan" test_asan ;;
      tsan) wait_for "build (tsan)" build_tsan && stage "tests under tsan" test_tsan ;;
      fakecuda)
        if wait_for "build (fakecuda)" build_fakecuda; then
          stage "tests under fakecuda" test_fakecuda
          stage "the same on four ranks" test_fakecuda_on_four_ranks
        fi
        ;;
      cuda) wait_for "build (cuda, sm_90)" build_cuda && stage "code of the device's kernels" test_device_code ;;
      other) stage "another compiler or library" build_in_turn ;;
    esac
    [ "$name" != "${parts[0]}" ] || wait_for "clang-tidy on changed files" check_tidy
  done
fi
print_summary
