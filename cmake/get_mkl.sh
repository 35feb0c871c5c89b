#!/usr/bin/env bash
# Prints the prefix to use as MKL_ROOT; everything else goes to stderr.
#
#   cmake/get_mkl.sh
#
# MKL_ROOT or MKLROOT, where one is set, is used as it is. Otherwise MKL is fetched once from PyPI (221 MB), into
# ${WEFT_CACHE:-~/.cache/weft}: its headers and the libraries that Weft loads (about 210 MB). It is Intel's, under the Intel
# Simplified Software License, which is put beside it.
set -euo pipefail

version=2026.2.0
wheel_tags=(--platform manylinux_2_28_x86_64 --only-binary=:all:)
sha256="eaab1875ce9f47ab3c66d5632cef06baf768c05781f2f28847bdbc4343500ed7  mkl-$version-py2.py3-none-manylinux_2_28_x86_64.whl
889cc72057a1671fee1e9a8beb2fc4e0d222ba78c08b6d69584dae03fbec4822  mkl_include-$version-py2.py3-none-manylinux_2_28_x86_64.whl"
# The kernels for AVX-512 are opened by name at the first product. On other processors Weft does not use MKL.
libraries=(libmkl_core.so.3 libmkl_intel_lp64.so.3 libmkl_gnu_thread.so.3 libmkl_avx512.so.3)
cache=$(realpath -m "${WEFT_CACHE:-$HOME/.cache/weft}")
prefix="$cache/mkl-$version"

say() { echo "get_mkl: $*" >&2; }
die() { say "$*"; exit 1; }

# Fetches and unpacks aside, and then renames, so that the prefix is whole or absent.
fetch() {
  local work name
  work=$(mktemp -d "$cache/fetch.XXXXXX")
  # shellcheck disable=SC2064  # the name is known now
  trap "rm -rf '$work'" EXIT
  say "fetching MKL $version with pip (221 MB)"
  python3 -m pip download --quiet --no-deps "${wheel_tags[@]}" --dest "$work" "mkl==$version" "mkl-include==$version" </dev/null >&2 ||
    die "cannot fetch mkl and mkl-include $version (no internet, or no pip); set MKLROOT to an installed MKL"
  (cd "$work" && sha256sum --check --status <<<"$sha256") || die "MKL's wheels have other checksums than this script"
  local data="mkl-$version.data/data" include="mkl_include-$version.data/data/include" licence="mkl-$version.dist-info/LICENSE.txt"
  (cd "$work" && cmake -E tar x mkl-*.whl -- "${libraries[@]/#/$data/lib/}" "$data/share/doc/mkl/licensing" "$licence" &&
    cmake -E tar x mkl_include-*.whl -- "$include")
  mkdir "$work/prefix"
  mv "$work/$data/lib" "$work/$include" "$work/prefix"
  mv "$work/$data/share/doc/mkl/licensing" "$work/prefix/licenses"
  mv "$work/$licence" "$work/prefix/licenses"
  for name in "${libraries[@]}"; do ln -s "$name" "$work/prefix/lib/${name%.3}"; done
  mv "$work/prefix" "$prefix"
}

[ $# -eq 0 ] || die "unknown option $1"
installed=${MKL_ROOT:-${MKLROOT:-}}
if [ -n "$installed" ]; then
  echo "$installed"
  exit 0
fi
[ "$(uname -m)" = x86_64 ] || die "MKL is there for x86_64 only"
mkdir -p "$cache"
exec 9>"$cache/mkl.lock"
flock 9  # one fetch at a time
[ -d "$prefix" ] || fetch
echo "$prefix"
