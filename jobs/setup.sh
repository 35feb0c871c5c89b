#!/usr/bin/env bash
# Makes this machine ready to build Weft, and builds it:
#
#   jobs/setup.sh [--cuda] [--mkl] [--tests] [--quickstart] [--missing] [--preset NAME]...
#
#   --cuda         also a Kokkos with CUDA (needs nvcc) and cuDNN's front end; the preset `cuda` implies it
#   --mkl          MKL for fp32 products on Intel processors without AMX: MKLROOT's, else PyPI's (a download of 221 MB); of host presets
#   --tests        also what tests/run.sh uses (GoogleTest, Slurm, iproute2, clang-format, ...)
#   --quickstart   also what jobs/quickstart.sh uses (a text, gnuplot)
#   --missing      only print the Debian names of the packages that are missing, one a line (jobs/prefix.sh)
#   --preset NAME  configure and build the CMake preset NAME (cpu, portable, cuda, fakecuda, debug, asan, tsan); NAME:TARGET builds only TARGET
#                  (NAME:weft does without h5dump, which a test calls, and without GoogleTest and the tests where GoogleTest is missing)
#
# WEFT_BUILD_JOBS says how many compilers run at once (default: one a processor).
# A first build of cpu, portable or cuda compiles several sources at once (CMAKE_UNITY_BUILD), so that what they include is read once. Whoever changes
# Weft turns that off with `cmake --preset cpu -D CMAKE_UNITY_BUILD=OFF`, and it stays off. Host presets use ccache where it is installed.
#
# As root (or with password-less sudo) on Debian or Ubuntu it installs what is missing. Elsewhere it prints what is missing and how
# to point to it, and ends with 1. What is there is left alone, so that a second run takes a second.
set -euo pipefail
[ -z "${WEFT_CACHE:-}" ] || WEFT_CACHE=$(realpath -m "$WEFT_CACHE")  # below where the caller is
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tests=no quickstart=no cuda=no mkl=no list_missing=no presets=()
while [ $# -gt 0 ]; do
  case $1 in
    --cuda) cuda=yes ;;
    --mkl) mkl=yes ;;
    --tests) tests=yes ;;
    --quickstart) quickstart=yes ;;
    --missing) list_missing=yes ;;
    --preset) [ $# -ge 2 ] || { echo "setup: --preset needs a name" >&2; exit 2; }; presets+=("$2"); shift ;;
    *) echo "setup: unknown option $1; see the head of jobs/setup.sh" >&2; exit 2 ;;
  esac
  shift
done
case " ${presets[*]-} " in *" cuda"*) cuda=yes ;; esac

# Debian package | how to see that it is there | Spack spec. A probe is `cmd PROGRAM`, `cmake PACKAGE` (find_package finds it),
# `lib HEADER LIBRARY`, `maybe HEADER LIBRARY` (it can be done without), `version` (CMake, not older than oldest_cmake), or `dpkg` (only
# Debian has it, and it can be done without).
oldest_cmake=3.22
can_do_without='|\(dpkg\|maybe [^|]*\)|'
needs() {
  cat <<'TABLE'
g++|cmd c++|gcc
make|cmd make|gmake
cmake|version|cmake
ninja-build|cmd ninja|ninja
patch|cmd patch|
libopenmpi-dev|cmake MPI|openmpi
openmpi-bin|cmd mpirun|openmpi
libhdf5-dev|cmake HDF5|hdf5~mpi
hdf5-tools|cmd h5dump|hdf5~mpi
libdnnl-dev|lib oneapi/dnnl/dnnl.hpp dnnl|onednn cpu_runtime=omp
libtomlplusplus-dev|cmake tomlplusplus|tomlplusplus
libcli11-dev|cmake CLI11|cli11
libfmt-dev|cmake fmt|fmt
libspdlog-dev|cmake spdlog|spdlog
nlohmann-json3-dev|cmake nlohmann_json|nlohmann-json
libsentencepiece-dev|lib sentencepiece_processor.h sentencepiece|sentencepiece
libpcre2-dev|maybe pcre2.h pcre2-8|pcre2
libutf8proc-dev|maybe utf8proc.h utf8proc|utf8proc
libxxhash-dev|lib xxhash.h xxhash|xxhash
zlib1g-dev|cmake ZLIB|zlib
libgtest-dev|cmake GTest|googletest
TABLE
  # pip only fetches sources: not needed where Kokkos is installed or its archive is at hand, and cuDNN's front end is optional.
  if ! kokkos_at_hand || { [ "$mkl" = yes ] && [ -z "${MKL_ROOT:-}${MKLROOT:-}" ]; }; then echo "python3-pip|cmd pip3|py-pip"; fi
  if [ "$tests" = yes ]; then
    cat <<'TABLE'
ccache|dpkg|
clang|dpkg|
clang-format|dpkg|
libclang-rt-14-dev|dpkg|
libbenchmark-dev|cmake benchmark|benchmark
git|cmd git|git
python3-pip|cmd pip3|py-pip
iproute2|dpkg|
iperf3|dpkg|
strace|dpkg|
python3-h5py|dpkg|
groff-base|cmd groff|groff
gnuplot-nox|cmd gnuplot|gnuplot
qemu-user|dpkg|
munge|dpkg|
slurm-wlm|dpkg|
TABLE
  fi
  if [ "$quickstart" = yes ]; then
    cat <<'TABLE'
dict-gcide|dpkg|
gnuplot-nox|cmd gnuplot|gnuplot
TABLE
  fi
}

kokkos_at_hand() {
  [ -n "${WEFT_KOKKOS_ARCHIVE:-}${Kokkos_ROOT:-}" ] || compgen -G "${WEFT_CACHE:-$HOME/.cache/weft}/*.tar.gz" >/dev/null
}

# The version of CMake; nothing where there is none.
cmake_version() { cmake --version 2>/dev/null | sed -n '1s/^cmake version //p' || true; }
new_enough() { [ "$(printf '%s\n' "$oldest_cmake" "$1" | sort -V | sed -n 1p)" = "$oldest_cmake" ]; }

# Reads lines of the table, and prints those that are not there, by the probe of each line. What only CMake can find is left out where
# CMake is too old to look.
absent() {
  local dir package probe spec version looks=yes
  version=$(cmake_version)
  [ -z "$version" ] || new_enough "$version" || looks=no
  dir=$(mktemp -d)
  {
    echo "cmake_minimum_required(VERSION $oldest_cmake)"
    echo "project(probe LANGUAGES C CXX)"
    echo "set(HDF5_PREFER_PARALLEL OFF)"
  } >"$dir/CMakeLists.txt"
  tee "$dir/table" | while IFS='|' read -r package probe spec; do
    # shellcheck disable=SC2086
    set -- $probe
    case $1 in
      cmake) printf 'find_package(%s QUIET)\nif(%s_FOUND)\n  file(APPEND found "%s;")\nendif()\n' "$2" "$2" "$package" ;;
      lib | maybe) printf 'find_path(H_%s %s)\nfind_library(L_%s %s)\nif(H_%s AND L_%s)\n  file(APPEND found "%s;")\nendif()\n' \
             "$3" "$2" "$3" "$3" "$3" "$3" "$package" ;;
    esac
  done >>"$dir/CMakeLists.txt"
  touch "$dir/found"
  [ $looks = no ] || (cd "$dir" && cmake -S . -B build >/dev/null 2>&1) || true
  while IFS='|' read -r package probe spec; do
    # shellcheck disable=SC2086
    set -- $probe
    case $1 in
      cmd) command -v "$2" >/dev/null || echo "$package|$probe|$spec" ;;
      cmake | lib | maybe) [ $looks = no ] || grep -q "\(^\|;\)$package;" "$dir/found" || echo "$package|$probe|$spec" ;;
      version | dpkg) echo "$package|$probe|$spec" ;;
    esac
  done <"$dir/table"
  rm -rf "$dir"
}

# Reads lines of the table, and prints those whose Debian package is not installed, and CMake's where it is too old.
not_installed() {
  local installed
  installed=$(dpkg-query --show --showformat='${Package} ${db:Status-Status}\n' 2>/dev/null | sed -n 's/ installed$//p')
  while IFS= read -r line; do
    case $line in
      *"|version|"*) new_enough "$(cmake_version)" || echo "$line" ;;
      *) grep -qx "${line%%|*}" <<<"$installed" || echo "$line" ;;
    esac
  done
}

explain_missing() {
  local package probe spec version what packages=() specs=()
  version=$(cmake_version)
  echo "setup: missing on this machine:"
  while IFS='|' read -r package probe spec; do
    case $probe in
      cmd*) what="program ${probe#cmd }" ;;
      version) what="($oldest_cmake or later; this is ${version:-none})" ;;
      cmake*) what="find_package(${probe#cmake })" ;;
      *) what="files ${probe#lib }" ;;
    esac
    printf '  %-22s %s\n' "$package" "$what"
    packages+=("$package")
    [ -z "$spec" ] || specs+=("$spec")
  done <<<"$1"
  [ -z "$version" ] || new_enough "$version" || echo "  The libraries were not looked for: this CMake is too old."
  cat <<TEXT
How to provide it:
  Debian, Ubuntu   sudo apt-get install ${packages[*]}
  Spack            spack install ${specs[*]}; spack load ${specs[*]}
  modules          module load ... (names differ from site to site; see jobs/README.md)
  without root     jobs/prefix.sh ~/weft-needs: from PyPI, all but the compiler, make, patch, pip and HDF5
  by hand          set <Name>_ROOT (HDF5_ROOT, dnnl_ROOT, fmt_ROOT, ...) or add the prefixes to CMAKE_PREFIX_PATH
TEXT
}

# Prints lines that dpkg does not know but that may be there: from modules, Spack, or another MPI.
still_missing() {
  local lines
  lines=$(needs | not_installed)
  [ -z "$lines" ] || absent <<<"$lines"
}

# What only tests use.
of_tests='^\(libgtest-dev\|hdf5-tools\)|'

# Whether nothing is built but the program. What only tests use may then be missing, and is not asked for.
program_only() {
  local preset
  [ "$tests" = no ] && [ ${#presets[@]} -gt 0 ] || return
  for preset in "${presets[@]}"; do [ "${preset#*:}" = weft ] || return; done
}

# Sets `missing` to what is not there, and `with_tests` to OFF where the tests cannot be configured and need not be.
look() {
  missing=$(still_missing) with_tests=ON
  if program_only; then
    ! grep -q '^libgtest-dev|' <<<"$missing" || with_tests=OFF
    missing=$(grep -v "$of_tests" <<<"$missing" || true)
  fi
}

look
if [ "$list_missing" = yes ]; then
  grep -v "$can_do_without" <<<"$missing" | cut -d'|' -f1 | grep . || true
  exit 0
fi
if [ -n "$missing" ]; then
  as_root=
  if [ "$(id -u)" != 0 ]; then
    if sudo -n true 2>/dev/null; then as_root="sudo -n"; else as_root=no; fi
  fi
  if command -v apt-get >/dev/null && [ "$as_root" != no ] && [ -z "${WEFT_NO_INSTALL:-}" ]; then
    mapfile -t needed < <(grep -v "$can_do_without" <<<"$missing" | cut -d'|' -f1)
    mapfile -t extras < <(grep "$can_do_without" <<<"$missing" | cut -d'|' -f1)
    echo "setup: installing" "${needed[@]}" "${extras[@]}"
    log=$(mktemp)
    # shellcheck disable=SC2086
    apt() { $as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=600 "$@"; }
    # One name that apt does not know would stop all. Of what can be done without, this Debian may have only some.
    {
      apt update && apt install -y --no-install-recommends "${needed[@]}" &&
        mapfile -t extras < <(for package in "${extras[@]}"; do ! apt-cache show "$package" >/dev/null || echo "$package"; done) &&
        apt install -y --no-install-recommends "${extras[@]}"
    } >"$log" 2>&1 </dev/null || { tail -n 5 "$log"; echo "setup: apt-get failed; the lines above are the end of its log"; }
    rm -f "$log"
    look
  fi
fi
# Tools that only add comfort are no reason to stop.
if [ -n "$missing" ]; then
  optional=$(grep "$can_do_without" <<<"$missing" | cut -d'|' -f1 | tr '\n' ' ' || true)
  [ -z "$optional" ] || echo "setup: going on without $optional(what uses them is skipped)"
  missing=$(grep -v "$can_do_without" <<<"$missing" || true)
fi
if [ -n "$missing" ]; then
  explain_missing "$missing" >&2
  exit 1
fi

# The front end is optional: CMake says which attention a cuda build gets.
cudnn_frontend() { cmake/get_cudnn_frontend.sh || echo "setup: going on without cuDNN's front end" >&2; }

[ "$cuda" = no ] || command -v nvcc >/dev/null || PATH=$PATH:${CUDA_HOME:-/usr/local/cuda}/bin
for preset in "${presets[@]}"; do
  target=all
  case $preset in *:*) target=${preset#*:} preset=${preset%%:*} ;; esac
  options=()
  case $preset in *cuda) options=(-U cudnn_frontend_INCLUDE_DIR -D cudnn_frontend_ROOT="$(cudnn_frontend)") ;; esac
  if [ "$preset" = cuda ]; then
    kokkos=$(cmake/get_kokkos.sh --cuda)
  else
    kokkos=$(cmake/get_kokkos.sh)
    if [ "$mkl" = yes ]; then
      mkl_root=$(cmake/get_mkl.sh)
      options=(-U "mkl_*" -D WEFT_MKL=ON -D MKL_ROOT="$mkl_root")
    fi
  fi
  case $preset in cpu | portable | cuda) [ -f "build/$preset/CMakeCache.txt" ] || options+=(-D CMAKE_UNITY_BUILD=ON) ;; esac
  # Not with CUDA, whose Kokkos puts a launcher of its own before the compiler. Of precompiled headers ccache must be told to trust them,
  # and that a clone in another folder is the same.
  if [ "$preset" != cuda ] && [ -z "${CMAKE_CXX_COMPILER_LAUNCHER:-}" ] && command -v ccache >/dev/null; then
    options+=(-D CMAKE_CXX_COMPILER_LAUNCHER=ccache)
    export CCACHE_SLOPPINESS=${CCACHE_SLOPPINESS:-pch_defines,time_macros} CCACHE_BASEDIR=${CCACHE_BASEDIR:-$PWD} CCACHE_NOHASHDIR=${CCACHE_NOHASHDIR:-1}
  fi
  # A build of everything brings the tests back into a build directory that was configured without them.
  if [ "$with_tests" = OFF ]; then options+=(-D WEFT_TESTS=OFF); elif [ "$target" != weft ]; then options+=(-U WEFT_TESTS); fi
  log=build/$preset/configure.log
  mkdir -p "build/$preset"
  echo "setup: configuring build/$preset (Kokkos in $kokkos)"
  # An older Kokkos_DIR in the cache of the build directory would win over Kokkos_ROOT.
  cmake --preset "$preset" -U Kokkos_DIR -D Kokkos_ROOT="$kokkos" "${options[@]}" >"$log" 2>&1 </dev/null || { tail -n 40 "$log"; exit 1; }
  sed -n 's/^-- Weft: /setup: /p' "$log"
  cmake --build --preset "$preset" --parallel "${WEFT_BUILD_JOBS:-$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc)}" --target "$target" </dev/null
done
if [ ${#presets[@]} -eq 0 ]; then
  cmake/get_kokkos.sh >/dev/null
  [ "$cuda" = no ] || { cmake/get_kokkos.sh --cuda; cudnn_frontend; } >/dev/null
  [ "$mkl" = no ] || cmake/get_mkl.sh >/dev/null
fi
echo "setup: ready"
