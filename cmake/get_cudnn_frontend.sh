#!/usr/bin/env bash
# Prints the prefix to use as cudnn_frontend_ROOT; everything else goes to stderr.
#
#   cmake/get_cudnn_frontend.sh [--fetch DIR]
#
# cudnn_frontend_ROOT, where it is set, is used as it is. Otherwise the headers of cuDNN's C++ front end are fetched once, into
# ${WEFT_CACHE:-~/.cache/weft}.
#   --fetch DIR  only put the headers and their licences into DIR (jobs/bundle.sh)
set -euo pipefail

version=1.32.0
# The wheel is made for Python, but its headers serve any machine: it does not matter which Python and
# platform it names.
wheel_tags=(--python-version 311 --platform manylinux_2_27_x86_64 --only-binary=:all:)
wheel_sha256=c6006556017a4d1c914c52a556c71b1267f2d6a0500f742e7b4edef539878df0
cache=$(realpath -m "${WEFT_CACHE:-$HOME/.cache/weft}")
prefix="$cache/cudnn-frontend-$version"

say() { echo "get_cudnn_frontend: $*" >&2; }
die() { say "$*"; exit 1; }

# Fetches and unpacks aside, and then renames, so that the prefix is whole or absent.
fetch() {
  local work wheel
  mkdir -p "$cache"
  work=$(mktemp -d "$cache/fetch.XXXXXX")
  # shellcheck disable=SC2064  # the name is known now
  trap "rm -rf '$work'" EXIT
  say "fetching the headers of cuDNN's front end $version with pip"
  python3 -m pip download --quiet --no-deps "${wheel_tags[@]}" --dest "$work" "nvidia-cudnn-frontend==$version" </dev/null >&2 ||
    die "cannot fetch nvidia-cudnn-frontend (no internet, or no pip); set cudnn_frontend_ROOT to an installed one"
  wheel=$(echo "$work"/*.whl)
  echo "$wheel_sha256  $wheel" | sha256sum --check --status || die "$(basename "$wheel") has another checksum than $wheel_sha256"
  (cd "$work" && cmake -E tar x "$wheel" -- include "nvidia_cudnn_frontend-$version.dist-info/licenses")
  mkdir "$work/prefix"
  mv "$work/include" "$work/nvidia_cudnn_frontend-$version.dist-info/licenses" "$work/prefix"
  rm -rf "$prefix"
  mv "$work/prefix" "$prefix"
}

fetch_to=
while [ $# -gt 0 ]; do
  case $1 in
    --fetch) [ $# -ge 2 ] || die "--fetch needs a directory"; fetch_to=$2; shift ;;
    *) die "unknown option $1 (known: --fetch DIR)" ;;
  esac
  shift
done

if [ -n "${cudnn_frontend_ROOT:-}" ]; then
  prefix=$cudnn_frontend_ROOT
else
  mkdir -p "$cache"
  exec 9>"$cache/cudnn-frontend.lock"
  flock 9  # one fetch at a time
fi
if [ ! -f "$prefix/include/cudnn_frontend.h" ]; then
  [ -z "${cudnn_frontend_ROOT:-}" ] || die "no include/cudnn_frontend.h in $prefix (cudnn_frontend_ROOT)"
  fetch
fi
if [ -n "$fetch_to" ]; then
  mkdir -p "$fetch_to"
  cp -r "$prefix/." "$fetch_to"
else
  echo "$prefix"
fi
