#!/usr/bin/env bash
# Adds a toy operation to a copy of the sources as CONTRIBUTING.md says, and sees that the copy compiles and knows it:
#
#   tests/extend/toy_operation.sh BUILD LIBRARY...
#
# BUILD is a build directory; the LIBRARYs are what src/ir and src/ops stand on. The operation is toy_operation.patch, made by going the
# path of CONTRIBUTING.md, "An operation". Only what it touches is copied, and only that, src/ir and src/ops are compiled, without
# optimization. What goes wrong is one line (behind the compiler's), and the exit status is then 1.
#
# To make the patch anew, in a tree without changes of yours:
#
#   git apply --3way tests/extend/toy_operation.patch    # mend what does not fit, and CONTRIBUTING.md, if it says otherwise; then:
#   git add src kernels tests/unit
#   { sed '/^diff/,$d' tests/extend/toy_operation.patch; git diff --cached -- src kernels tests/unit; } >toy.patch
#   mv toy.patch tests/extend/toy_operation.patch
#   git diff --cached --name-only --diff-filter=A -- kernels tests/unit | xargs git rm -qf
#   git checkout HEAD -- src kernels tests/unit
set -euo pipefail

build=$1
shift
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
here=tests/extend
copy=$build/toy_operation
name=squared_relu
fail() { echo "$here/toy_operation.sh: $*" >&2; exit 1; }

# The sources that the patch changes, and all that it touches.
mapfile -t changed < <(sed -n 's|^--- a/||p' "$root/$here/toy_operation.patch")
mapfile -t touched < <(sed -n 's|^+++ b/||p' "$root/$here/toy_operation.patch")
[ ${#touched[@]} -gt 5 ] ||
  fail "toy_operation.patch touches ${#touched[@]} files (it should add an operation); make it anew, as the head of this script says"

recipe=$(sed -n '/^## An operation/,/^## A pass/p' "$root/CONTRIBUTING.md")
for file in "${touched[@]}"; do
  grep -qF "\`${file//$name/NAME}\`" <<<"$recipe" ||
    fail "CONTRIBUTING.md, 'An operation', does not name ${file//$name/NAME} (toy_operation.patch touches it); add that step"
done

rm -rf "$copy"
for file in "${changed[@]}"; do
  mkdir -p "$copy/$(dirname "$file")"
  cp "$root/$file" "$copy/$file" || fail "there is no $file (it was moved); make toy_operation.patch anew, as the head of this script says"
done
patch --quiet --batch --strip=1 --directory="$copy" <"$root/$here/toy_operation.patch" >&2 ||
  fail "toy_operation.patch no longer applies (what it changes was changed); make it anew, as the head of this script says"

# command_of TARGET: sets `compiler` and `flags` to those of TARGET's sources, but for optimization.
command_of() {
  local command arguments flag
  command=$(grep -m 1 -- " -o [^ ]*/$1\.dir/" "$build/compile_commands.json") ||
    fail "no source of $1 is in $build/compile_commands.json (it may have another name now); change this script"
  command=${command#*\"command\": \"} command=${command%% -o *}
  command=${command//\\\\/\\}
  eval "arguments=(${command//\\\"/\"})"
  if [ "$(basename "${arguments[0]}")" = ccache ]; then arguments=("${arguments[@]:1}"); fi
  compiler=${arguments[0]} flags=()
  for flag in "${arguments[@]:1}"; do
    case $flag in -O* | -g*) ;; *) flags+=("$flag") ;; esac
  done
}

cache=()
if command -v ccache >/dev/null; then cache=(ccache); fi

# object_of SOURCE: prints the name of the source's object.
object_of() { echo "$copy/$(basename "$(dirname "$1")")_$(basename "$1").o"; }

# compile SOURCE: compiles it like the sources of command_of's target, but with the copy's headers first.
compile() {
  "${cache[@]}" "$compiler" -I"$copy/src" -I"$copy" -iquote "$root/tests/unit/kernels" "${flags[@]}" -O0 -c "$1" -o "$(object_of "$1")" >&2
}

# compile_all TARGET SOURCE...: compiles all at once, which takes a third of the time. Where that fails it compiles one by one, to say which
# source is wrong. It adds the objects to `objects`.
compile_all() {
  local target=$1 file
  shift
  [ $# -gt 0 ] || return 0
  command_of "$target"
  printf '#include "%s"\n' "$@" >"$copy/$target.cpp"
  if compile "$copy/$target.cpp" 2>/dev/null; then objects+=("$(object_of "$copy/$target.cpp")"); return; fi
  for file in "$@"; do
    compile "$file" ||
      fail "$(basename "$file") does not compile with the toy operation (does CONTRIBUTING.md leave out a step?); mend it and toy_operation.patch"
    objects+=("$(object_of "$file")")
  done
}

# sources PATTERN: prints the sources of the tree and of the copy that match. Where both have one, it prints the copy's.
sources() {
  { (cd "$root" && compgen -G "$1"); (cd "$copy" && compgen -G "$1"); } | sort -u | while read -r file; do
    if [ -f "$copy/$file" ]; then echo "$copy/$file"; else echo "$root/$file"; fi
  done
}
# touched_in FOLDER: prints the folder's sources that the patch touches.
touched_in() { sources "$1/*.cpp" | grep "^$copy/"; }

mapfile -t ir < <(sources 'src/ir/*.cpp')
mapfile -t ops < <(sources 'src/ops/*.cpp')
mapfile -t in_plan < <(touched_in src/plan)
mapfile -t bind < <(sources src/exec/bind.cpp)  # a switch over all operations
mapfile -t in_kernels < <(touched_in kernels)
mapfile -t in_tests < <(touched_in tests/unit/kernels)
objects=()
compile_all weft_plan "${in_plan[@]}"
compile_all weft_exec "${bind[@]}"
compile_all weft_kernels "${in_kernels[@]}"
compile_all test_kernels "${in_tests[@]}"

objects=()
compile_all weft_ir "${ir[@]}"
compile_all weft_ops "${ops[@]}"
compile "$root/$here/check_toy_operation.cpp" || fail "check_toy_operation.cpp does not compile (what it calls was changed); change it, too"
"$compiler" -o "$copy/check" "${objects[@]}" "$(object_of "$root/$here/check_toy_operation.cpp")" "$@" ||
  fail "check_toy_operation.cpp does not link; change $here/extend.cmake"
"$copy/check" || fail "the toy operation is in the sources, but graphs do not know it (see above); mend CONTRIBUTING.md and toy_operation.patch"
echo "an operation added to ${#touched[@]} files compiles, and graphs know it"
