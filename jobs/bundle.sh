#!/usr/bin/env bash
# Makes weft-bundle.tar.gz: what a machine without internet needs to build Weft, besides the libraries of its own modules.
#
#   jobs/bundle.sh [FILE]
#
# In it: Weft's sources, the Kokkos source archive, and the headers of cuDNN's front end. On the other machine:
#   tar xzf weft-bundle.tar.gz && cd weft && jobs/offline_build.sh
set -euo pipefail
out=${1:+$(realpath -m -- "$1")}
cd "$(dirname "${BASH_SOURCE[0]}")/.."
out=${out:-$PWD/weft-bundle.tar.gz}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir -p "$dir/weft/third_party"

# The bundle has what git tracks or would track: no build outputs, no data, and not an earlier FILE.
git ls-files --cached --others --exclude-standard |
  while IFS= read -r file; do [ ! -e "$file" ] || [ "$file" -ef "$out" ] || printf '%s\0' "$file"; done |
  tar --create --null --files-from=- | tar --extract --directory="$dir/weft"
git rev-parse --verify --quiet HEAD >"$dir/weft/third_party/weft_commit" || true
cmake/get_kokkos.sh --fetch "$dir/weft/third_party/kokkos-source.tar.gz"
cmake/get_cudnn_frontend.sh --fetch "$dir/weft/third_party/cudnn-frontend" ||
  echo "bundle: without cuDNN's front end; a build for GPUs then has attention without tensor cores" >&2
tar --create --gzip --file="$out" --directory="$dir" --owner=0 --group=0 weft
echo "bundle: $out ($(du -h "$out" | cut -f1))"
