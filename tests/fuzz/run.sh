#!/usr/bin/env bash
# Fuzzes the parsers of decks, token files, checkpoints (manifest, slices, shard), graphs, safetensors headers:
#
#   tests/fuzz/run.sh [SECONDS] [TARGET...]     each TARGET (default: all) for SECONDS (default: 300), one after the other
#
# Builds the preset fuzz first (clang). Goes on where the last call stopped: what it found interesting is kept in build/fuzz/corpus/TARGET.
# Ends with a table, and with 1 when something was found; the input is then in build/fuzz/findings. `build/fuzz/tests/fuzz/fuzz_TARGET
# FILE` shows it again, with -minimize_crash=1 makes it smaller; once mended, it belongs to tests/fuzz/corpus/TARGET.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1

seconds=300
if [[ ${1:-} =~ ^[0-9]+$ ]]; then seconds=$1; shift; fi
build=build/fuzz/tests/fuzz
mkdir -p build/fuzz/findings
{ cmake --preset fuzz && cmake --build --preset fuzz; } >build/fuzz/build.log 2>&1 </dev/null || { tail -n 40 build/fuzz/build.log; exit 1; }
targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then mapfile -t targets < <(basename -s .options -a "$build"/*.options); fi

# figure NAME LOG: prints a number that libFuzzer gives at its end.
figure() { sed -n "s/^stat::$1: *//p" "$2"; }

table=() failed=0
for target in "${targets[@]}"; do
  if [ ! -f "$build/$target.options" ]; then
    echo "tests/fuzz/run.sh: no target $target; there are: $(basename -s .options -a "$build"/*.options | xargs)" >&2
    exit 2
  fi
  mkdir -p "build/fuzz/corpus/$target"
  log=build/fuzz/$target.log
  mapfile -t options <"$build/$target.options"
  "$build/fuzz_$target" "${options[@]}" -max_total_time="$seconds" -artifact_prefix="build/fuzz/findings/$target-" \
    "build/fuzz/corpus/$target" >"$log" 2>&1 </dev/null
  status=$?
  outcome=-
  if [ $status != 0 ]; then
    failed=1
    outcome=$(sed -n 's/.*Test unit written to //p' "$log" | tail -n 1)
    outcome=${outcome:-ended with $status, see $log}
  fi
  coverage=$(grep -o 'cov: [0-9]* ft: [0-9]*' "$log" | tail -n 1)
  table+=("$(printf '%-12s %12s %9s  %-22s %6s MB  %s' "$target" "$(figure number_of_executed_units "$log")" \
    "$(figure average_exec_per_sec "$log")" "$coverage" "$(figure peak_rss_mb "$log")" "$outcome")")
done
printf '%-12s %12s %9s  %-22s %9s  %s\n' target executions per_second edges,features memory finding
printf '%s\n' "${table[@]}"
exit $failed
