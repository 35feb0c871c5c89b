#!/usr/bin/env bash
# Prints the prefix to use as Kokkos_ROOT; everything else goes to stderr.
#
#   cmake/get_kokkos.sh [--cuda | --hip] [--fetch FILE]
#
# A Kokkos >= 4.7 that find_package(Kokkos) finds is used as it is (Kokkos_ROOT and CMAKE_PREFIX_PATH are honoured), if it is for the
# same device; for the host, with OpenMP and neither CUDA nor HIP. Otherwise 4.7.0 is built once, into ${WEFT_CACHE:-~/.cache/weft}, under
# a name that carries a hash of this recipe, the compiler with its architecture, and CXXFLAGS.
#   --cuda        a Kokkos with the CUDA back end, for WEFT_CUDA_ARCH (default HOPPER90: sm_90)
#   --hip         a Kokkos with the HIP back end, for WEFT_HIP_ARCH (default AMD_GFX90A), by CXX: clang++ or hipcc, with CXXFLAGS
#   --fetch FILE  only put the verified source archive at FILE (jobs/bundle.sh)
# WEFT_KOKKOS_ARCHIVE names the source archive on machines without internet. The exit status is 69 where it cannot be fetched.
# WEFT_BUILD_JOBS says how many compilers run at once (default: one a processor).
set -euo pipefail

source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
version=4.7.0
# Kokkos has no source release on PyPI of its own; this one carries the unchanged 4.7.0 sources in tpls/kokkos.
package=pygenten==0.1.5
archive_name=pygenten-0.1.5.tar.gz
archive_sha256=e620f05c742905e2db705d875f1cac92ef0ed453f9e6734e9beda26cc0f9cce7
cache=$(realpath -m "${WEFT_CACHE:-$HOME/.cache/weft}")

say() { echo "get_kokkos: $*" >&2; }
die() { say "$*"; exit 1; }
cannot_fetch() { say "$*"; exit 69; }
verified() { [ -f "$1" ] && echo "$archive_sha256  $1" | sha256sum --check --status; }

variant=openmp
fetch_to=
while [ $# -gt 0 ]; do
  case $1 in
    --cuda) variant=cuda ;;
    --hip) variant=hip ;;
    --fetch) [ $# -ge 2 ] || die "--fetch needs a file name"; fetch_to=$2; shift ;;
    *) die "unknown option $1 (known: --cuda, --hip, --fetch FILE)" ;;
  esac
  shift
done

# Prints where the source archive is. Fetches it when neither WEFT_KOKKOS_ARCHIVE nor the cache has it.
source_archive() {
  if [ -n "${WEFT_KOKKOS_ARCHIVE:-}" ]; then
    verified "$WEFT_KOKKOS_ARCHIVE" || die "WEFT_KOKKOS_ARCHIVE=$WEFT_KOKKOS_ARCHIVE is missing or is not $archive_name (sha256 $archive_sha256)"
    echo "$WEFT_KOKKOS_ARCHIVE"
    return
  fi
  local archive="$cache/$archive_name" into
  if ! verified "$archive"; then
    mkdir -p "$cache"
    into=$(mktemp -d "$cache/fetch.XXXXXX")
    say "fetching the source archive $archive_name with pip"
    python3 -m pip download --quiet --no-deps --no-binary "${package%%==*}" --dest "$into" "$package" </dev/null >&2 ||
      { rm -rf "$into"; cannot_fetch "cannot fetch $package (no internet, or no pip: apt-get install python3-pip); set WEFT_KOKKOS_ARCHIVE to a copy of $archive_name, or Kokkos_ROOT to an installed Kokkos >= 4.7"; }
    verified "$into/$archive_name" || { rm -rf "$into"; die "$archive_name has another checksum than $archive_sha256"; }
    mv "$into/$archive_name" "$archive"
    rm -rf "$into"
  fi
  echo "$archive"
}

# Prints the prefix of an installed Kokkos that fits, or fails.
installed_prefix() {
  local probe found=
  probe=$(mktemp -d)
  cat >"$probe/CMakeLists.txt" <<'PROBE'
cmake_minimum_required(VERSION 3.22)
project(probe LANGUAGES CXX)
find_package(Kokkos 4.7 QUIET)
if(DEVICE STREQUAL "OPENMP" AND (Kokkos_ENABLE_CUDA OR Kokkos_ENABLE_HIP))
  return()  # its kernels would run there
endif()
if(Kokkos_FOUND AND Kokkos_ENABLE_${DEVICE})
  get_filename_component(prefix "${Kokkos_DIR}/../../.." ABSOLUTE)
  file(WRITE "${PROJECT_BINARY_DIR}/prefix" "${prefix}")
endif()
PROBE
  cmake -S "$probe" -B "$probe/build" -DDEVICE="${variant^^}" >/dev/null 2>&1 || true
  [ -f "$probe/build/prefix" ] && found=$(cat "$probe/build/prefix")
  rm -rf "$probe"
  [ -n "$found" ] && echo "$found"
}

options=(-DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_STANDARD=20 -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DBUILD_SHARED_LIBS=OFF
         -DCMAKE_INSTALL_LIBDIR=lib -DKokkos_ENABLE_OPENMP=ON -DKokkos_ENABLE_SERIAL=ON)
patches=()
if [ "$variant" = cuda ]; then
  command -v nvcc >/dev/null || PATH=$PATH:${CUDA_HOME:-/usr/local/cuda}/bin
  options+=(-DKokkos_ENABLE_CUDA=ON -DKokkos_ENABLE_CUDA_CONSTEXPR=ON "-DKokkos_ARCH_${WEFT_CUDA_ARCH:-HOPPER90}=ON")
  patches=("$source_dir"/cmake/patches/kokkos-"$version"-*.patch)
elif [ "$variant" = hip ]; then
  options+=(-DKokkos_ENABLE_OPENMP=OFF -DKokkos_ENABLE_HIP=ON -DKokkos_ENABLE_ROCTHRUST=OFF "-DKokkos_ARCH_${WEFT_HIP_ARCH:-AMD_GFX90A}=ON")
fi

if [ -n "$fetch_to" ]; then
  from=$(source_archive)
  cp "$from" "$fetch_to"
  exit 0
fi
if prefix=$(installed_prefix); then
  say "using the installed Kokkos in $prefix"
  echo "$prefix"
  exit 0
fi
compilers=$(${CXX:-c++} --version | sed -n 1p; ${CXX:-c++} -dumpmachine 2>/dev/null || uname -m)
if [ "$variant" = cuda ]; then
  command -v nvcc >/dev/null || die "nvcc is not on PATH; load a CUDA module, or set CUDA_HOME"
  compilers+=$(nvcc --version | tail -n 1)
fi
recipe=$({ printf '%s\n' "$archive_sha256" "$compilers" "${CXXFLAGS:-}" "${options[@]}"; [ ${#patches[@]} -eq 0 ] || cat "${patches[@]}"; } | sha256sum | cut -c1-8)
prefix="$cache/kokkos-$version-$variant-$recipe"
if [ -f "$prefix/lib/cmake/Kokkos/KokkosConfig.cmake" ]; then
  echo "$prefix"
  exit 0
fi

# Only one build runs at a time, and the lock outlives no process. The install is staged and renamed, so that
# the prefix is whole or absent.
mkdir -p "$cache"
exec 9>"$cache/kokkos.lock"
flock 9
if [ ! -f "$prefix/lib/cmake/Kokkos/KokkosConfig.cmake" ]; then
  archive=$(source_archive)
  work=$(mktemp -d "${TMPDIR:-/tmp}/weft-kokkos.XXXXXX")
  staged="$cache/staged-$variant"
  trap 'rm -rf "$work" "$staged"' EXIT
  trap 'exit 130' INT TERM HUP
  rm -rf "$staged"
  say "building Kokkos $version ($variant) into $prefix, once; 1 to 2 minutes"
  tar -xzf "$archive" -C "$work" --strip-components=3 "${archive_name%.tar.gz}/tpls/kokkos"
  for patch in "${patches[@]}"; do patch --quiet --strip=1 --directory="$work" <"$patch" >&2; done
  {
    cmake -S "$work" -B "$work/build" -G Ninja -DCMAKE_INSTALL_PREFIX="$prefix" "${options[@]}" &&
      cmake --build "$work/build" --parallel "${WEFT_BUILD_JOBS:-$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc)}" &&
      DESTDIR="$staged" cmake --install "$work/build"
  } >"$work/log" 2>&1 </dev/null 9>&- || { tail -n 40 "$work/log" >&2; die "Kokkos did not build; the lines above are the end of its log"; }
  mv "$staged$prefix" "$prefix"
fi
echo "$prefix"
