#!/usr/bin/env bash
# What of the parsers the fuzz targets' inputs reach:
#
#   tests/fuzz/coverage.sh [--lines] [TARGET...]      (default: all)
#
# Builds the targets with clang's coverage in build/fuzz_coverage, runs the corpus in the repository and what tests/fuzz/run.sh has found
# so far (build/fuzz/corpus) once, and prints how many regions, functions and lines of the parser's files were executed; --lines prints
# those that were not.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

lines=no
if [ "${1:-}" = --lines ]; then lines=yes; shift; fi
build=build/fuzz_coverage
mkdir -p $build
{ cmake --preset fuzz -B $build -DWEFT_SANITIZE=fuzzer -DCMAKE_CXX_FLAGS="-fprofile-instr-generate -fcoverage-mapping" && cmake --build $build; } \
  >$build/build.log 2>&1 </dev/null || { tail -n 40 $build/build.log; exit 1; }
targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then mapfile -t targets < <(basename -s .options -a $build/tests/fuzz/*.options); fi

# These files do not count: the system's, the target itself, what all targets share, and what the build makes.
elsewhere='(/usr/|/tests/|/src/base/|/build/)'
for target in "${targets[@]}"; do
  program=$build/tests/fuzz/fuzz_$target
  IFS=, read -ra seeds <<<"$(<"$build/tests/fuzz/$target.seeds")"
  inputs=("$build/seeds/$target")
  mkdir -p "${inputs[0]}"
  # The index tells seeds apart, because formats have files of one name.
  for i in "${!seeds[@]}"; do cp "${seeds[i]}" "${inputs[0]}/$i-$(basename "${seeds[i]}")"; done
  if [ -d "build/fuzz/corpus/$target" ]; then inputs+=("build/fuzz/corpus/$target"); fi
  # -runs=0 executes what the folders hold, and no more.
  LLVM_PROFILE_FILE=$build/$target.profraw "$program" -runs=0 -timeout=60 -artifact_prefix="$build/" "${inputs[@]}" >"$build/$target.log" 2>&1 </dev/null ||
    { tail -n 20 "$build/$target.log"; exit 1; }
  llvm-profdata merge -o "$build/$target.profdata" "$build/$target.profraw"
  printf '\n%s: %s inputs\n' "$target" "$(sed -n 's/^#\([0-9]*\).*INITED.*/\1/p' "$build/$target.log" | tail -n 1)"
  if [ $lines = yes ]; then
    llvm-cov show "$program" -instr-profile="$build/$target.profdata" -ignore-filename-regex="$elsewhere" | { grep -E '^/|\|  *0\|' || true; }
  else
    llvm-cov report "$program" -instr-profile="$build/$target.profdata" -ignore-filename-regex="$elsewhere" |
      awk '/^(Filename|TOTAL)/ || /pp/' | cut -c1-160
  fi
done
