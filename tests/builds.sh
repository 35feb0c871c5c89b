#!/usr/bin/env bash
# Builds Weft with other compilers and libraries than Debian's defaults, each in build/NAME, and runs the tests that tell of the difference:
#
#   tests/builds.sh NAME...
#
#   clang          Clang 19 and its OpenMP
#   mpich          MPICH
#   pypi           the newer libraries of jobs/prefix.sh: Open MPI 5, oneDNN 3, fmt 12, ...
#   hdf5-parallel  HDF5 that is built with MPI
#   turn           the one of them whose turn it is: by the number of commits, so not each in a row
#
# As root on Debian it installs what it needs. docs/builds.md has the table of what was built and tested. A build that warns fails. The exit
# status is 77 if what is needed is not to be had.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

names=(clang mpich pypi hdf5-parallel)

# need PACKAGE...: Debian packages that the setup script does not install.
need() {
  local absent=() package
  for package in "$@"; do
    [ "$(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || absent+=("$package")
  done
  [ ${#absent[@]} = 0 ] || {
    apt-get -q -o DPkg::Lock::Timeout=600 update &&
      DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=600 install --no-install-recommends "${absent[@]}"
  } >/dev/null 2>&1 || { echo "builds: no ${absent[*]} on this machine, and none to be installed"; exit 77; }
}

# Shows what went wrong last, without the thousand lines before it.
quietly() {
  local log=$1
  shift
  "$@" >"$log" 2>&1 </dev/null || { tail -n 40 "$log"; exit 1; }
}

# compiled NAME TARGET... [-- OPTION...]: configures and builds, without a warning.
compiled() {
  local build=build/$1 targets=() kokkos
  shift
  while [ $# -gt 0 ] && [ "$1" != -- ]; do targets+=("$1"); shift; done
  [ $# = 0 ] || shift
  mkdir -p "$build"
  kokkos=$(cmake/get_kokkos.sh)
  quietly "$build/configure.log" cmake --preset cpu -B "$build" -U Kokkos_DIR -D Kokkos_ROOT="$kokkos" -D CMAKE_UNITY_BUILD=ON "$@"
  quietly "$build/build.log" cmake --build "$build" --parallel "$(nproc)" --target weft "${targets[@]}"
  if grep -n 'warning:' "$build/build.log"; then echo "builds: the build is to be free of warnings"; exit 1; fi
  "$build/weft" --version
}

# says NAME TEXT: the program was built with what the line is for.
says() { "build/$1/weft" --version | grep -q "$2" || { echo "builds: build/$1 is not built with $2"; exit 1; }; }

# run NAME REGEX: runs those tests of CTest.
run() { ctest --test-dir "build/$1" --output-on-failure --no-tests=error --parallel "$(nproc)" --tests-regex "$2"; }

# Training on two and four ranks, and of its tests those that go through each kind of collective, axis and file.
trainings='Precisions/Bits.*:Tensor.Gradients*:Context.Gradients*:Pipe.EveryModeHas*:Replicas.*Checkpoints*:Tensor.Checkpoints*:Lanes.*:Agree.*'
trains() { GTEST_FILTER=$trainings run "$1" '^mpi\.training\.np[24]$'; }

build() {
  case $1 in
    clang)
      need clang-19 libomp-19-dev
      export CC=clang-19 CXX=clang++-19
      compiled clang test_kernels test_graph test_model test_ckpt test_training
      says clang 'Clang 19'
      run clang '^unit\.(kernels(\..*)?|graph|model|ckpt)$' && trains clang
      ;;
    mpich)
      need mpich libmpich-dev
      compiled mpich test_comm test_training -- -D MPI_C_COMPILER=mpicc.mpich -D MPI_CXX_COMPILER=mpicxx.mpich -D MPIEXEC_EXECUTABLE=/usr/bin/mpiexec.mpich
      says mpich 'MPICH 4'
      run mpich '^mpi\.comm\.np[123]$' && trains mpich
      ;;
    pypi)
      jobs/prefix.sh --fetch || exit 77
      mkdir -p build/pypi
      quietly build/pypi/prefix.log jobs/prefix.sh build/pypi/prefix mpi onednn zlib xxhash fmt spdlog nlohmann-json tomlplusplus cli11 sentencepiece googletest
      # shellcheck source=/dev/null
      . build/pypi/prefix/activate
      compiled pypi test_comm test_kernels test_ckpt test_training
      says pypi 'Open MPI 5.*oneDNN 3'
      run pypi '^(mpi\.comm\.np[123]|unit\.(kernels|ckpt))$' && trains pypi
      ;;
    hdf5-parallel)
      need libhdf5-openmpi-dev
      compiled hdf5-parallel test_ckpt test_hf test_training -- -D HDF5_ROOT=/usr/lib/x86_64-linux-gnu/hdf5/openmpi
      grep -q '^HDF5_IS_PARALLEL:BOOL=TRUE' build/hdf5-parallel/CMakeCache.txt || { echo "builds: this HDF5 is not parallel"; exit 1; }
      run hdf5-parallel '^unit\.(ckpt|hf)$' && trains hdf5-parallel
      ;;
    *) echo "builds: unknown build $1; see the head of tests/builds.sh" >&2; exit 2 ;;
  esac
}

[ $# -gt 0 ] || { echo "builds: no NAME; known are ${names[*]}, and turn" >&2; exit 2; }
for name in "$@"; do
  if [ "$name" = turn ]; then
    # A copy without git has its first one.
    commits=$(git rev-list --count HEAD 2>/dev/null || echo 0)
    name=${names[$((commits % ${#names[@]}))]}
    echo "builds: it is the turn of $name"
  fi
  (build "$name")  # in a shell of its own, so that the next one has Debian's compiler and paths again
done
