#!/usr/bin/env bash
# Builds Weft from a bundle (jobs/bundle.sh) without internet and without installing anything:
#
#   jobs/offline_build.sh [PRESET]        (default: cpu; cuda for NVIDIA)
#
# Load the site's modules or Spack environment first; jobs/README.md lists what Weft needs. What is missing is put below build/needs from the
# bundle, if it was made with --needs; what is still missing then is named. It writes only below this folder, unless
# TMPDIR, WEFT_CACHE or CCACHE_DIR say otherwise, and asks PyPI for nothing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
preset=${1:-cpu}
archive=$PWD/third_party/kokkos-source.tar.gz
[ -z "${WEFT_KOKKOS_ARCHIVE:-}" ] && [ -f "$archive" ] && export WEFT_KOKKOS_ARCHIVE=$archive
frontend=$PWD/third_party/cudnn-frontend
[ -z "${cudnn_frontend_ROOT:-}" ] && [ -d "$frontend" ] && export cudnn_frontend_ROOT=$frontend
# Home directories of clusters are small and slow, and /tmp may be small, too; everything stays in this folder.
export WEFT_CACHE=${WEFT_CACHE:-$PWD/build/cache} TMPDIR=${TMPDIR:-$PWD/build/tmp} CCACHE_DIR=${CCACHE_DIR:-$PWD/build/ccache} WEFT_NO_INSTALL=1
mkdir -p "$TMPDIR"
# With it pip fails at once, where it would wait for an answer of PyPI several times.
export PIP_NO_INDEX=1

bundled=$PWD/third_party/needs needs=$PWD/build/needs
if [ -d "$bundled" ]; then
  # A half of a library, which is there after an interruption, would be found like a whole one.
  [ -f "$needs/whole" ] || rm -rf "$needs"
  # shellcheck source=/dev/null
  [ ! -f "$needs/activate" ] || . "$needs/activate"
  if [ -n "$(jobs/setup.sh --missing --preset "$preset:weft")" ]; then
    rm -f "$needs/whole"
    WEFT_CACHE=$bundled jobs/prefix.sh --offline --mpi "$(cat "$bundled/mpi")" --preset "$preset:weft" "$needs" >/dev/null
    touch "$needs/whole"
    # shellcheck source=/dev/null
    . "$needs/activate"
  fi
fi
jobs/setup.sh --preset "$preset:weft" || {
  status=$?
  [ -d "$bundled" ] || [ -z "$(jobs/setup.sh --missing --preset "$preset:weft")" ] ||
    echo "offline_build: this bundle has no libraries; one of jobs/bundle.sh --needs has all but the compiler, make, patch, Python and HDF5" >&2
  exit "$status"
}
[ ! -f "$needs/activate" ] || echo "offline_build: before you start Weft: . $needs/activate"
