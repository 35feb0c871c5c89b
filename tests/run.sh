#!/usr/bin/env bash
# Sets this machine up, builds Weft and tests it:
#
#   tests/run.sh [--quick] [--label LABEL]...
#
# Stages: set-up; preset cpu, all tests; asan and tsan builds of the tests that can run under them; the fuzz targets, briefly (where
# clang is); the cuda preset compiled for sm_90 (where nvcc is); clang-format; clang-tidy on changed files. Ends with a table of stages
# and their times; the exit status is 0 if none failed. Needs no terminal.
#   --quick        only set-up and the cpu tests
#   --label LABEL  of these only the tests with that label (unit, mpi, golden, restart, slurm, net); implies --quick
# WEFT_BASE names the commit that "changed files" are compared with (default: the merge base with origin/main, else HEAD~1).
# shellcheck disable=SC2016,SC2317  # functions are called by stage; some scripts are quoted whole
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
exec </dev/null

quick=no labels=()
while [ $# -gt 0 ]; do
  case $1 in
    --quick) quick=yes ;;
    --label) [ $# -ge 2 ] || { echo "tests/run.sh: --label needs a name" >&2; exit 2; }; labels+=("$2"); quick=yes; shift ;;
    *) echo "tests/run.sh: unknown option $1; see the head of the file" >&2; exit 2 ;;
  esac
  shift
done

logs=build/test_logs
mkdir -p "$logs"
summary=() failed=0 failed_logs=()

# stage NAME FUNCTION: runs a stage; 0 is good, 77 is "skipped" (its last line says why), anything else has
# failed.
stage() {
  local name=$1 start=$SECONDS status outcome note=''
  printf '\n== %s\n' "$name"
  "$2" 2>&1 | tee "$logs/$2.log"
  status=${PIPESTATUS[0]}
  case $status in
    0) outcome=ok ;;
    77) outcome=skipped note=$(tail -n 1 "$logs/$2.log") ;;
    *) outcome=FAILED failed=1 ;;
  esac
  summary+=("$(printf '%-34s %-8s %5d s  %s' "$name" "$outcome" $((SECONDS - start)) "$note")")
  [ "$outcome" != FAILED ] || failed_logs+=("$logs/$2.log")
  [ "$outcome" != FAILED ]
}

# Prints what failed once more at the end, because often only the end of a long log is kept.
print_failures() {
  local log
  for log in "${failed_logs[@]}"; do
    printf '\n== failed: %s\n' "$log"
    grep -nE -A 4 'Failure$|FAILED|\*\*\*|[Ee]rror:|warning:|ERROR: .*Sanitizer|WARNING: ThreadSanitizer' "$log" | cut -c1-240 | tail -n 80
  done
}

print_summary() {
  print_failures
  printf '\n== summary\n'
  printf '%s\n' "${summary[@]}" "$(printf '%-34s %-8s %5d s' all "$([ $failed = 0 ] && echo ok || echo FAILED)" "$SECONDS")"
  exit $failed
}

# run_ctest PRESET LABEL...: runs the preset's tests, all of them or those with one of the labels.
run_ctest() {
  local preset=$1 regex=''
  shift
  [ $# -eq 0 ] || regex="^($(IFS='|'; echo "$*"))\$"
  ctest --test-dir "build/$preset" --output-on-failure --no-tests=error --parallel "$(nproc)" ${regex:+--label-regex "$regex"}
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

build_asan() { jobs/setup.sh --preset asan:tests_unit --preset asan:tests_mpi; }
build_tsan() { jobs/setup.sh --preset tsan:test_comm --preset tsan:test_comm_fake --preset tsan:test_training; }

# Builds what the sanitizers need while the cpu tests run, at the lowest priority, because those wait for half
# of their time. What fails here fails again in its stage, and is shown there.
build_ahead() {
  renice -n 19 "$BASHPID" >/dev/null
  build_asan && build_tsan
}

# Runs the tests under asan. One number of ranks is enough for the training tests, and two for the
# measurements: the sanitizer sees the same code at each, thirty times slower. For the same reason tests with
# plans of many rounds, which take a minute each, are left out.
test_asan() {
  build_asan &&
    GTEST_FILTER='-StepSeconds.OfManyRounds*:ChooseSchedule.ManyRounds*:*Arena.IsWithinTwoPercent*/none:*Arena.IsWithinTwoPercent*/selective' \
    ctest --test-dir build/asan --output-on-failure --no-tests=error --parallel "$(nproc)" --label-regex '^(unit|mpi)$' --exclude-regex '(training.np[1346]|measure.np[34])'
}

# Runs the communication layer, and training on two ranks, under tsan: there Weft's own threads meet. Each
# rank has one OpenMP thread, because libgomp shows false races. Left out is what training does without a
# thread of its own (bad numbers, initial weights, what bits depend on); Skip saves in the background.
test_tsan() {
  build_tsan &&
    OMP_NUM_THREADS=1 GTEST_FILTER='-*BadStep.*:BadNumbers.*:RollBack.*:Locate.*:Init.*:Bits.DependOn*:Bits.Fusing*' \
    ctest --test-dir build/tsan --output-on-failure --no-tests=error --parallel "$(nproc)" --tests-regex '^mpi\.(comm|training\.np2)'
}

# Runs the corpus, and then changes of it that are the same each time. tests/fuzz/run.sh is for longer runs.
test_fuzz() {
  clang++ -fsanitize=fuzzer -x c++ -o /dev/null - <<<'extern "C" int LLVMFuzzerTestOneInput(const char*, unsigned long) { return 0; }' 2>/dev/null ||
    { echo "no clang++ with libFuzzer on this machine"; return 77; }
  jobs/setup.sh --preset fuzz && run_ctest fuzz
}

build_cuda() {
  command -v nvcc >/dev/null || [ -x "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" ] || { echo "no nvcc on this machine"; return 77; }
  jobs/setup.sh --preset cuda:weft --preset cuda:test_kernels --preset cuda:test_exec
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
  local tidy units
  tidy=$(find_clang_tidy) || { echo "no clang-tidy 16 or later, and none to be had from PyPI"; return 77; }
  # A changed header is seen through the source beside it. Only what the cpu preset compiles can be parsed.
  units=$(changed_sources | sed 's/\.hpp$/.cpp/' | sort -u | while read -r file; do
    if [ -f "$file" ] && grep -qF "$PWD/$file\"" build/cpu/compile_commands.json; then echo "$file"; fi
  done)
  [ -n "$units" ] || { echo "no source has changed"; return 0; }
  # omp.h is GCC's, with an attribute that clang does not know; it stands after all other include folders, so that clang's own headers
  # win. A first commit or a large merge is more than this stage has time for: what is left then is said, not hidden.
  local seconds=${WEFT_TIDY_SECONDS:-300} status left
  : >"$logs/tidy_left"
  tidy_until=$(($(date +%s) + seconds)) tidy=$tidy logs=$logs omp=$("${CXX:-c++}" -print-file-name=include) \
    xargs -P "$(nproc)" -n 1 bash -c '
      if [ "$(date +%s)" -ge "$tidy_until" ]; then echo "$1" >>"$logs/tidy_left"; exit 0; fi
      "$tidy" -p build/cpu --quiet --warnings-as-errors="*" --extra-arg=-Wno-unknown-warning-option \
        --extra-arg="-idirafter$omp" --extra-arg="-D__malloc__(...)=__malloc__" \
        "$1" 2>>"$logs/tidy_counts.log"' tidy <<<"$units"
  status=$?
  left=$(wc -l <"$logs/tidy_left")
  echo "$(($(wc -l <<<"$units") - left)) files looked at$([ "$left" = 0 ] || echo ", $left left out after $seconds s (WEFT_TIDY_SECONDS)")"
  return "$status"
}

stage "set-up" setup || print_summary
stage "build (cpu)" build_cpu || print_summary
if [ $quick = no ]; then build_ahead >"$logs/build_ahead.log" 2>&1 & fi
stage "tests (cpu)" test_cpu
if [ $quick = no ]; then
  wait
  stage "tests under asan and ubsan" test_asan
  stage "tests under tsan" test_tsan
  stage "fuzz targets" test_fuzz
  stage "build (cuda, sm_90)" build_cuda
  stage "clang-format" check_format
  stage "clang-tidy on changed files" check_tidy
fi
print_summary
