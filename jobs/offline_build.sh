#!/usr/bin/env bash
# Builds Weft from a bundle (jobs/bundle.sh) without internet and without installing anything:
#
#   jobs/offline_build.sh [PRESET]        (default: cpu; cuda for NVIDIA)
#
# Load the site's modules or Spack environment first; jobs/README.md lists what Weft needs. What is missing is named.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
archive=$PWD/third_party/kokkos-source.tar.gz
[ -z "${WEFT_KOKKOS_ARCHIVE:-}" ] && [ -f "$archive" ] && export WEFT_KOKKOS_ARCHIVE=$archive
frontend=$PWD/third_party/cudnn-frontend
[ -z "${cudnn_frontend_ROOT:-}" ] && [ -d "$frontend" ] && export cudnn_frontend_ROOT=$frontend
# Home directories of clusters are small and slow; everything stays in this folder.
export WEFT_CACHE=${WEFT_CACHE:-$PWD/build/cache} WEFT_NO_INSTALL=1
exec jobs/setup.sh --preset "${1:-cpu}:weft"
