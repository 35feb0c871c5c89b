#!/usr/bin/env bash
# Builds Weft with other compilers and libraries than Debian's defaults, each below build/NAME, and runs the tests that tell of the difference:
#
#   tests/builds.sh NAME...
#
#   clang          Clang 19 and its OpenMP
#   mpich          MPICH
#   pypi           the newer libraries of jobs/prefix.sh: Open MPI 5, oneDNN 3, fmt 12, ..., with LIBRARY_PATH as modules set it; installed, and
#                  loaded as a module
#   hdf5-parallel  HDF5 that is built with MPI
#   portable       the preset `portable`: a program for each level of x86-64 that this machine has, installed, moved, and run on older
#                  processors by qemu
#   aarch64        another architecture: a cross compiler, the libraries of Debian's arm64, and qemu
#   trixie         Debian 13 in a folder of its own: GCC 14, HDF5 1.14, Open MPI 5, oneDNN 3.7
#   hip            the kernels that all devices share, compiled for AMD's MI200 by Clang 16 with Debian's HIP; not run
#   container      the image of jobs/Dockerfile by buildah, on a Debian that is made from its packages; not in turn
#   apptainer      the image of jobs/weft.def by the Apptainer of Debian unstable, on a Debian 12 that is made likewise; not in turn
#   turn           the one of them whose turn it is: by the number of commits, so not each in a row
#
# tests/builds.sh --whose-turn [COMMIT] prints the name of that one at the commit (HEAD), and builds nothing.
# As root on Debian it installs what it needs. docs/builds.md has the table of what was built and tested. A build that warns fails. A line
# that passed ends with its name, the date, the commit and what was built with. The exit status is 77 if what is needed is not to be had.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

cores=$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc)
names=(clang mpich pypi hdf5-parallel portable aarch64 trixie hip)
built=  # what `weft --version` says of it

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

free_of_warnings() { if grep -n 'warning:' "$1"; then echo "builds: the build is to be free of warnings"; exit 1; fi; }

# compiled NAME TARGET... [-- OPTION...]: configures and builds, without a warning.
compiled() {
  local build=build/$1 targets=() kokkos
  shift
  while [ $# -gt 0 ] && [ "$1" != -- ]; do targets+=("$1"); shift; done
  [ $# = 0 ] || shift
  mkdir -p "$build"
  kokkos=$(cmake/get_kokkos.sh)
  quietly "$build/configure.log" cmake --preset cpu -B "$build" -U Kokkos_DIR -D Kokkos_ROOT="$kokkos" -D CMAKE_UNITY_BUILD=ON "$@"
  quietly "$build/build.log" cmake --build "$build" --parallel "$cores" --target weft "${targets[@]}"
  free_of_warnings "$build/build.log"
  built_with ${WEFT_SYSROOT:+qemu-aarch64 -L "$WEFT_SYSROOT"} "$build/weft"
}

# built_with PROGRAM...: shows what that Weft was built with, and keeps it in `built`.
built_with() { built=$("$@" --version) && echo "$built"; }

# says NAME TEXT: the program was built with what the line is for.
says() { "build/$1/weft" --version | grep -q "$2" || { echo "builds: build/$1 is not built with $2"; exit 1; }; }

# run NAME REGEX: runs those tests of CTest.
run() { ctest --test-dir "build/$1" --output-on-failure --no-tests=error --parallel "$cores" --tests-regex "$2"; }

# Training on two and four ranks, and of its tests those that go through each kind of collective, axis and file.
trainings='Precisions/Bits.*:Tensor.Gradients*:Context.Gradients*:Pipe.EveryModeHas*:Replicas.*Checkpoints*:Tensor.Checkpoints*:Lanes.*:Agree.*'
trains() { GTEST_FILTER=$trainings run "$1" '^mpi\.training\.np[24]$'; }

# chooses_a_level PROGRAM: it becomes the program of the processor's level, or of the one that is asked for, or says why not. What it becomes
# is not emulated.
chooses_a_level() {
  local processor level status=0
  while read -r processor level; do
    qemu-x86_64 -cpu "$processor" "$1" --version 2>/dev/null | grep -q -e "-march=$level;" || { echo "builds: $1 does not become $level on a $processor"; exit 1; }
  done <<<$'Nehalem x86-64-v2\nHaswell x86-64-v3'
  WEFT_LEVEL=x86-64-v2 "$1" --version | grep -q -e '-march=x86-64-v2;' || { echo "builds: WEFT_LEVEL does not choose"; exit 1; }
  qemu-x86_64 -cpu core2duo "$1" --version 2>/dev/null || status=$?
  [ $status = 6 ] || { echo "builds: $1 ends with $status on a core2duo"; exit 1; }
  status=0
  WEFT_LEVEL=x86-64-v9 "$1" --version 2>/dev/null || status=$?
  [ $status = 2 ] || { echo "builds: $1 ends with $status when it is asked for a level that is none"; exit 1; }
}

# debian LOG ARGUMENT...: makes a Debian with mmdebstrap. Where its packages cannot be fetched, that cannot be done here; anything else is a
# failure, such as a package that Debian does not have.
debian() {
  local log=$1
  shift
  mmdebstrap "$@" >"$log" 2>&1 </dev/null || {
    tail -n 40 "$log"
    ! grep -q -e '^E: Failed to fetch ' -e '^E: Some index files failed to download' "$log" || { echo "builds: Debian's packages cannot be fetched"; exit 77; }
    exit 1
  }
}

# debian_for ARCHITECTURE FOLDER: puts a Debian of that architecture there, with the libraries that Weft uses. Nothing of it is run.
debian_for() {
  local packages link
  packages=$(sed -nE 's/^([a-z0-9.+-]+-dev)\|(cmake|lib) .*/\1/p' jobs/setup.sh | tr '\n' ,)
  mkdir -p "${2%/*}"
  rm -rf "$2.new"
  debian "$2.log" --variant=extract --architectures="$1" --include="$packages openmpi-bin libgomp1 libstdc++-12-dev" bookworm "$2.new"
  # Links that begin at the root would lead out of the folder.
  find "$2.new" -lname '/*' | while read -r link; do ln -sfn "$(realpath -m --relative-to="${link%/*}" "$2.new$(readlink "$link")")" "$link"; done
  mv "$2.new" "$2"
}

# may_mount NAME: ends the line where nothing can be mounted.
may_mount() { { [ "$(id -u)" = 0 ] && unshare --mount true; } 2>/dev/null || { echo "builds: $1 takes root that may mount"; exit 77; }; }

# debian_root SUITE FOLDER [ARGUMENT...]: puts a Debian there that can be run, with the certificates of this machine, for pip.
debian_root() {
  local suite=$1 folder=$2
  shift 2
  rm -rf "$folder"
  debian "$folder.log" --variant=minbase --include=ca-certificates "$@" "$suite" "$folder"
  cp /etc/ssl/certs/ca-certificates.crt "$folder/etc/ssl/certs/"
}

# copied_to FOLDER: gives the Debian there a copy of Weft, and the network of this machine. What was built there stays.
copied_to() {
  cp /etc/resolv.conf /etc/hosts "$1/etc/"
  mkdir -p "$1/weft"
  find "$1/weft" -mindepth 1 -maxdepth 1 ! -name build -exec rm -rf {} +
  tar -c --exclude=./build --exclude=./.git --exclude=./runs --exclude=./studies --exclude=./perf/gpu_results . | tar -x -C "$1/weft"
}

# in_root FOLDER COMMAND...: runs a command in the copy of Weft that the Debian below FOLDER has. What is mounted for it ends with it. It is
# no chroot, in which Linux lets nobody make a user namespace.
in_root() {
  local cache=${WEFT_CACHE:-$HOME/.cache/weft}
  mkdir -p "$1/cache" "$cache"
  # shellcheck disable=SC2016
  WEFT_CACHE=$cache unshare --mount bash -euc 'root=$1
    shift
    mount --bind "$root" "$root"
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    mount --rbind /sys "$root/sys"
    mount --bind "$WEFT_CACHE" "$root/cache"
    cd "$root"
    pivot_root . mnt
    umount --lazy /mnt
    exec env --chdir=/weft -u CXX -u CC -u CXXFLAGS -u CMAKE_PREFIX_PATH -u Kokkos_ROOT -u WEFT_KOKKOS_ARCHIVE -u cudnn_frontend_ROOT -u TMPDIR -u CCACHE_DIR \
      -u LD_LIBRARY_PATH LANG=C.UTF-8 HOME=/root WEFT_CACHE=/cache "$@"' in_root "$@" </dev/null
}

# debian_image NAME: an image of Debian 12 from its packages, with the certificates of this machine.
debian_image() {
  local container
  debian build/container/base.log --variant=minbase --include=ca-certificates bookworm build/container/base.tar
  container=$(buildah from scratch)
  buildah add --quiet "$container" build/container/base.tar / >/dev/null
  buildah add --quiet "$container" /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ >/dev/null
  buildah commit --quiet --rm "$container" "$1" >/dev/null
  rm build/container/base.tar
}

build() {
  case $1 in
    clang)
      need clang-19 libomp-19-dev
      export CC=clang-19 CXX=clang++-19
      compiled clang all
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
      need environment-modules
      fetched=0
      jobs/prefix.sh --fetch || fetched=$?
      [ $fetched != 69 ] || exit 77  # there is no internet, or PyPI has it no more
      [ $fetched = 0 ] || exit 1
      mkdir -p build/pypi
      quietly build/pypi/prefix.log jobs/prefix.sh build/pypi/prefix mpi onednn zlib xxhash fmt spdlog nlohmann-json tomlplusplus cli11 sentencepiece googletest
      # shellcheck source=/dev/null
      . build/pypi/prefix/activate
      # As modules of a cluster set it; the program must start where they are not loaded.
      LIBRARY_PATH=$PWD/build/pypi/prefix/lib compiled pypi test_comm test_kernels test_ckpt test_training
      says pypi 'Open MPI 5.*oneDNN 3'
      rm -rf build/pypi/installed
      quietly build/pypi/install.log cmake --install build/pypi --prefix "$PWD/build/pypi/installed"
      # shellcheck disable=SC2016
      quietly build/pypi/module.log bash -exc '. /usr/share/modules/init/bash
        module use "$1/share/modulefiles"
        module load weft
        [ "$(command -v weft)" = "$1/bin/weft" ]
        weft --version' module "$PWD/build/pypi/installed"
      run pypi '^(mpi\.comm\.np[123]|unit\.(kernels|ckpt))$' && trains pypi
      ;;
    hdf5-parallel)
      need libhdf5-openmpi-dev
      compiled hdf5-parallel test_ckpt test_hf test_training -- -D HDF5_ROOT=/usr/lib/x86_64-linux-gnu/hdf5/openmpi
      grep -q '^HDF5_IS_PARALLEL:BOOL=TRUE' build/hdf5-parallel/CMakeCache.txt || { echo "builds: this HDF5 is not parallel"; exit 1; }
      run hdf5-parallel '^unit\.(ckpt|hf)$' && trains hdf5-parallel
      ;;
    portable)
      need qemu-user
      mkdir -p build/portable
      kokkos=$(cmake/get_kokkos.sh)
      # qemu emulates no AVX-512: v4 can be tested only where this processor has it, which the loader tells.
      levels=(x86-64-v2 x86-64-v3)
      if /lib64/ld-linux-x86-64.so.2 --help | grep '^ *x86-64-v4 (supported' >/dev/null; then levels+=(x86-64-v4); fi
      quietly build/portable/configure.log cmake --preset portable -D Kokkos_ROOT="$kokkos" -D CMAKE_UNITY_BUILD=ON \
        -D WEFT_LEVELS="$(IFS=';'; echo "${levels[*]}")"
      quietly build/portable/build.log cmake --build --preset portable
      free_of_warnings build/portable/build.log
      rm -rf build/portable/{prefix,moved}
      quietly build/portable/install.log cmake --install build/portable --prefix build/portable/prefix
      mv build/portable/prefix build/portable/moved  # an installation may be moved
      (cd / && quietly "$OLDPWD/build/portable/plan.log" "$OLDPWD/build/portable/moved/bin/weft" plan "$OLDPWD/inputs/llama3_70b.toml" --world 64 --machine h100)
      built_with build/portable/moved/bin/weft
      grep -q -e "-march=${levels[-1]};" <<<"$built" || { echo "builds: build/portable/moved/bin/weft does not become ${levels[-1]}, which this processor has"; exit 1; }
      chooses_a_level build/portable/moved/bin/weft
      for level in "${levels[@]}"; do
        quietly build/portable/tests.log cmake --build "build/portable/$level" --target test_kernels
        run "portable/$level" '^unit\.kernels$'
      done
      ;;
    aarch64)
      need g++-aarch64-linux-gnu qemu-user mmdebstrap
      export WEFT_SYSROOT=$PWD/build/aarch64/sysroot CMAKE_TOOLCHAIN_FILE=$PWD/cmake/aarch64.cmake CXX=aarch64-linux-gnu-g++
      [ -d "$WEFT_SYSROOT" ] || debian_for arm64 "$WEFT_SYSROOT"
      compiled aarch64 test_kernels test_comm test_training -- -D WEFT_ARCH=armv8.2-a
      # Not those that take minutes under qemu, or start themselves again.
      GTEST_FILTER='-Attention.E*:Attention.Documents*:Attention.Long*:Attention.P*:Attention.G*:Attention.W*:Matmul.BitsDoNotDependOnTheAlignment:Matmul.Split*:Matmul.Long*:Threads.*' run aarch64 '^unit\.kernels$'
      run aarch64 '^mpi\.comm\.np2$'
      GTEST_FILTER='Precisions/Bits.*/1:Precisions/Bits.*/3' run aarch64 '^mpi\.training\.np2$'
      ;;
    trixie)
      need mmdebstrap
      may_mount trixie
      root=build/trixie/root
      mkdir -p build/trixie
      [ -d $root ] || {
        debian_root trixie $root.new --include=python3-h5py  # for a test of unit.ckpt
        mv $root.new $root
      }
      copied_to $root
      # As a user would on such a machine; set-up installs what is missing.
      presets=()
      for target in weft test_comm test_kernels test_ckpt test_hf test_training; do presets+=(--preset "cpu:$target"); done
      quietly build/trixie/build.log in_root $root jobs/setup.sh "${presets[@]}"
      free_of_warnings build/trixie/build.log
      built_with in_root $root build/cpu/weft
      grep -q 'GNU 14.*HDF5 1\.14' <<<"$built" || { echo "builds: this is not Debian 13"; exit 1; }
      in_root $root ctest --test-dir build/cpu --output-on-failure --no-tests=error --parallel "$cores" --tests-regex '^(mpi\.comm\.np[123]|unit\.(kernels|ckpt|hf))$'
      in_root $root env GTEST_FILTER="$trainings" ctest --test-dir build/cpu --output-on-failure --no-tests=error --parallel "$cores" --tests-regex '^mpi\.training\.np[24]$'
      ;;
    hip)
      need libamdhip64-dev rocm-device-libs clang-16 clang-tools-16 lld-16
      export PATH=/usr/lib/llvm-16/bin:$PATH CC=clang CXX=clang++
      export CXXFLAGS='--rocm-path=/usr --rocm-device-lib-path=/usr/lib/x86_64-linux-gnu/amdgcn/bitcode'
      mkdir -p build/hip
      kokkos=$(cmake/get_kokkos.sh --hip)
      quietly build/hip/configure.log cmake --preset hip -U Kokkos_DIR -D Kokkos_ROOT="$kokkos"
      quietly build/hip/build.log cmake --build --preset hip --parallel "$cores"
      built="built with $(clang++ --version | sed -n 1p)"  # it makes no program
      ;;
    container)
      need buildah mmdebstrap
      mkdir -p build/container
      # Not the overlay, which there may be none of in a container.
      export STORAGE_DRIVER=vfs BUILDAH_ISOLATION=chroot
      buildah inspect --type image localhost/weft-base >/dev/null 2>&1 || debian_image localhost/weft-base
      quietly build/container/build.log buildah build --network host --build-arg BASE=localhost/weft-base --build-arg LEVELS=x86-64-v3 --file jobs/Dockerfile --tag weft .
      container=$(buildah from localhost/weft)
      trained=0
      {
        built_with buildah run "$container" weft &&
          buildah run "$container" mpirun --allow-run-as-root --oversubscribe -n 2 weft train inputs/quickstart.toml --set data.synthetic=true --set run.steps=3 --set optimizer.warmup=1
      } || trained=$?
      buildah rm "$container" >/dev/null
      return $trained
      ;;
    apptainer)
      need mmdebstrap
      may_mount apptainer
      root=build/apptainer/root
      mkdir -p build/apptainer
      [ -d $root ] || {
        # Debian 12 has no Apptainer. A mirror of unstable may be older than apt lets one be.
        debian_root sid $root.new --include=apptainer,squashfuse,uidmap --aptopt='Acquire::Check-Valid-Until "false"'
        debian_root bookworm $root.new/base
        rm -rf $root.new/base/dev/*  # which Apptainer would copy, and only the machine's own root may make
        echo root:0:65536 | tee $root.new/etc/subuid >$root.new/etc/subgid
        mv $root.new $root
      }
      copied_to $root
      sed -i -e 's/^Bootstrap: docker$/Bootstrap: localimage/' -e 's|^From: .*|From: /base|' -e 's/--preset portable -D/& WEFT_LEVELS=x86-64-v3 -D/' $root/weft/jobs/weft.def
      # Apptainer asks for all that root may do. Root in a container may not do all, but in a user namespace it may. Not all users are
      # mapped, for Apptainer takes such a namespace for none.
      in_it=(in_root "$root" unshare --user --map-users=0:0:65536 --map-groups=0:0:65536 apptainer)
      quietly build/apptainer/build.log "${in_it[@]}" build --force weft.sif jobs/weft.def
      free_of_warnings build/apptainer/build.log
      built_with "${in_it[@]}" run weft.sif
      "${in_it[@]}" exec weft.sif mpirun --allow-run-as-root --oversubscribe -n 2 weft train /usr/local/share/weft/inputs/quickstart.toml \
        --set data.synthetic=true --set run.steps=3 --set optimizer.warmup=1
      ;;
    *) echo "builds: unknown build $1; see the head of tests/builds.sh" >&2; exit 2 ;;
  esac
}

# whose_turn [COMMIT]: of the names that the script had at that commit, which may be fewer. A copy without git has its first one.
whose_turn() {
  local commits turns=("${names[@]}")
  if [ $# = 0 ]; then
    commits=$(git rev-list --count HEAD 2>/dev/null || echo 0)
  else
    commits=$(git rev-list --count --end-of-options "$1" -- 2>/dev/null) || { echo "builds: $1 is no commit of this repository" >&2; exit 2; }
    read -r -a turns < <(git show "$1:tests/builds.sh" 2>/dev/null | sed -n 's/^names=(\(.*\))$/\1/p') || { echo "builds: at $1 no line was in turn" >&2; exit 2; }
  fi
  echo "${turns[$((commits % ${#turns[@]}))]}"
}

# passed NAME: the last line of a log, by which one sees later what that line passed with (docs/builds.md).
passed() {
  local commit
  commit=$(git describe --always --dirty --exclude='*' 2>/dev/null || echo unknown)
  echo "builds: $1 passed on $(LC_ALL=C date -u +'%-d %B %Y'), commit $commit, $(grep '^built with ' <<<"$built")"
}

[ $# -gt 0 ] || { echo "builds: no NAME; known are ${names[*]}, and turn" >&2; exit 2; }
if [ "$1" = --whose-turn ]; then
  shift
  whose_turn "$@"
  exit
fi
for name in "$@"; do
  if [ "$name" = turn ]; then
    name=$(whose_turn)
    echo "builds: it is the turn of $name"
  fi
  (
    build "$name"  # in a shell of its own, so that the next one has Debian's compiler and paths again
    passed "$name"
  )
done
